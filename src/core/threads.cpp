#include "core/threads.h"

#include <omp.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "core/status.h"

namespace pl {

int available_processors() { return omp_get_num_procs(); }

void refuse_after_fork() {
  static std::atomic<bool> forked{false};
  // Registered by the first use, so that a fork before it is of no concern.
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (forked.load(std::memory_order_relaxed))
    fail(Code::device,
         "this process was forked after its parent had run ops; the threads of OpenMP and OpenCL do not live on in a "
         "fork, expected a fork before the first op, or a new process (multiprocessing's \"spawn\")");
}

void use_threads(int threads) {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

void wake_threads() {
#if !defined(__SANITIZE_THREAD__)  // libgomp is not instrumented
#pragma omp parallel
  asm volatile("" ::: "memory");  // an empty region could be left out by the compiler
#endif
}

void wake_together() {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 8; ++i) {
    const auto start = Clock::now();
    wake_threads();
    if (Clock::now() - start < std::chrono::microseconds(20)) return;
  }
}

uint64_t preemptions() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_nivcsw);
}

void copy_bytes(void* destination, const void* source, size_t bytes) {
  if (destination == source || bytes == 0) return;
  constexpr size_t kPart = 256 * 1024;
  const int64_t parts = int64_t((bytes + kPart - 1) / kPart);
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int64_t i = 0; i < parts; ++i) {
    const size_t begin = size_t(i) * kPart;
    std::memcpy(static_cast<char*>(destination) + begin, static_cast<const char*>(source) + begin,
                std::min(kPart, bytes - begin));
  }
}

}  // namespace pl
