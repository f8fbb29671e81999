// in_team, parallel_for: split work over the cores, when it is worth it.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace pl::host {

// Waking the other threads and waiting for them costs a few microseconds; below this much work one thread is faster.
constexpr double kSerialNanoseconds = 12000;

// The same for ops that run in the midst of others like them, when the other threads are still awake.
constexpr double kAwakeNanoseconds = 3000;

// The number of threads worth using for so much work (all items together).
inline int threads_for([[maybe_unused]] double nanoseconds, [[maybe_unused]] double serial = kSerialNanoseconds) {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not see how libgomp hands work to threads and back, and would call each region a race.
  return 1;
#else
  if (nanoseconds < serial || omp_in_parallel()) return 1;
  return int(std::min<double>(omp_get_max_threads(), nanoseconds / (serial / 2)));
#endif
}

// Calls body(rank, team) on up to `threads` threads, team of them; it must not throw.
//
// The whole pool begins the region, and threads beyond those asked for leave at once: libgomp ends threads when a
// region wants fewer than the one before, and the next larger region waits until others are made.  That cost 0.5 ms
// each time on 16 processors, more than most ops (docs/notes/2026-11-26-teams-that-shrink.md).
template <class Body>
void in_team(int threads, Body&& body) {
  if (threads <= 1) {
    body(int64_t(0), int64_t(1));
    return;
  }
#pragma omp parallel
  {
    const int64_t team = std::min(threads, omp_get_num_threads()), rank = omp_get_thread_num();
    if (rank < team) body(rank, team);
  }
}

// Calls body(begin, end) for consecutive pieces of [0, count), each item about `nanoseconds` of work on one core.
// A piece runs on one thread; `body` must not throw.
template <class Body>
void parallel_for(int64_t count, double nanoseconds, Body&& body, double serial = kSerialNanoseconds) {
  if (count <= 0) return;
  const int threads = int(std::min<int64_t>(threads_for(double(count) * nanoseconds, serial), count));
  in_team(threads, [&](int64_t rank, int64_t team) {
    const int64_t begin = count * rank / team, end = count * (rank + 1) / team;
    if (begin < end) body(begin, end);
  });
}

}  // namespace pl::host
