// Processor time.
#pragma once

#include <time.h>

namespace pl {

// Of the calling thread so far, in ms: what other programs take meanwhile does not count.
inline double thread_ms() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * double(time.tv_sec) + 1e-6 * double(time.tv_nsec);
}

}  // namespace pl
