/* What benchmarks of calls through the C interface share. */
#ifndef PYLAYOUT_BENCH_CALLS_H
#define PYLAYOUT_BENCH_CALLS_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pylayout.h"

/* The monotonic clock, in microseconds. */
static inline double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* Ends the program with the library's message unless all is well. */
static inline void check(pl_status status) {
  if (status == PL_OK) return;
  fprintf(stderr, "%s\n", pl_last_error());
  exit(1);
}

#endif
