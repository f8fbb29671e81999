// Time that passes, and processor time, in ms.
#pragma once

#include <time.h>

#include <chrono>

namespace pl {

// Of a clock that is never put back: only differences mean something.
inline double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of the calling thread so far, in ms: what other programs take meanwhile does not count.
inline double thread_ms() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * double(time.tv_sec) + 1e-6 * double(time.tv_nsec);
}

}  // namespace pl
