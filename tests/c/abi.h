/* What the tests of the C ABI share: calls whose status is checked, and a context of their own. */
#ifndef PYLAYOUT_TESTS_ABI_H
#define PYLAYOUT_TESTS_ABI_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "pylayout.h"

/* The call succeeds. */
#define OK(call) EXPECT(PL_OK, call)

/* The call ends with that status; its message is shown when it does not. */
#define EXPECT(expected, call)                                                                                  \
  do {                                                                                                          \
    const pl_status status_ = (call);                                                                           \
    if (status_ != (expected)) {                                                                                \
      fprintf(stderr, "%s:%d: %s is %d, expected %s: %s\n", __FILE__, __LINE__, #call, (int)status_, #expected, \
              pl_last_error());                                                                                 \
      exit(1);                                                                                                  \
    }                                                                                                           \
  } while (0)

/* The call fails with that status, and its message holds the text. */
#define FAILS(expected, text, call)                                                                             \
  do {                                                                                                          \
    EXPECT(expected, call);                                                                                     \
    if (!strstr(pl_last_error(), text)) {                                                                       \
      fprintf(stderr, "%s:%d: the message of %s is \"%s\", expected \"%s\" in it\n", __FILE__, __LINE__, #call, \
              pl_last_error(), text);                                                                           \
      exit(1);                                                                                                  \
    }                                                                                                           \
  } while (0)

/* A context over cpu alone, whose cache is a folder that the test program's folder holds. */
static inline pl_context make_context(void) {
  pl_context context = NULL;
  OK(pl_context_create("threads=2 opencl=false tune=off cache_dir=\"abi-test-cache\"", &context));
  CHECK(context != NULL);
  return context;
}

static inline pl_tensor make_tensor(pl_context context, int32_t rank, const int64_t* shape, const char* layout,
                                    const float* values, size_t count) {
  pl_tensor tensor = NULL;
  OK(pl_tensor_create(context, "cpu", PL_F32, rank, shape, layout, &tensor));
  if (values) OK(pl_tensor_write(tensor, values, count * sizeof(float)));
  return tensor;
}

#endif
