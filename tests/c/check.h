/* CHECK(condition): ends the test program with the place and the condition when it does not hold. */
#ifndef PYLAYOUT_TESTS_CHECK_H
#define PYLAYOUT_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

#endif
