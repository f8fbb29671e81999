#include "core/threads.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "core/status.h"

namespace pl {

int available_processors() { return omp_get_num_procs(); }

int default_threads() {
  const char* set = std::getenv("OMP_NUM_THREADS");
  const long asked = set ? std::strtol(set, nullptr, 10) : 0;  // of "4,2" the first, of the outermost regions
  return asked > 0 ? int(std::min<long>(asked, available_processors())) : available_processors();
}

namespace {
std::atomic<bool> forked{false};
}

bool is_forked_child() { return forked.load(std::memory_order_relaxed); }

void refuse_after_fork() {
  // Registered by the first use, so that a fork before it is of no concern.
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (is_forked_child())
    fail(Code::device,
         "this process was forked after its parent had run ops; the threads of OpenMP and OpenCL do not live on in a "
         "fork, expected a fork before the first op, or a new process (multiprocessing's \"spawn\")");
}

bool threads_sleep() {
  static const bool sleep = [] {
    const auto is = [](const char* name, const char* value) {
      const char* set = std::getenv(name);
      return set && strcasecmp(set, value) == 0;
    };
    return is("OMP_WAIT_POLICY", "passive") || is("GOMP_SPINCOUNT", "0");
  }();
  return sleep;
}

void use_threads(int threads) {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

CallersThreads::CallersThreads() : threads_(omp_get_max_threads()) {}
CallersThreads::~CallersThreads() { use_threads(threads_); }

void wake_threads() {
#pragma omp parallel
  asm volatile("" ::: "memory");  // an empty region could be left out by the compiler
}

void wake_together() {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 8; ++i) {
    const auto start = Clock::now();
    wake_threads();
    if (Clock::now() - start < std::chrono::microseconds(20)) return;
  }
}

namespace {

sigset_t hold_signals() {
  sigset_t held, before;
  sigfillset(&held);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&held, fault);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  return before;
}

// Counts the ends of pool threads that hold signals back: what a caller knew of its pool may be out of date then.
std::atomic<uint64_t> ended{0};
struct PoolThread {
  bool holds = false;
  ~PoolThread() {
    if (holds) ++ended;
  }
};

// Makes the calling thread's pool hold signals back.  Threads that a later region makes, while the caller holds them,
// inherit that.  One region for each pool, not for each call.
void hold_signals_in_pool() {
  thread_local int threads_known = 0;
  thread_local uint64_t ended_before = 0;
  const int threads = omp_get_max_threads();
  const uint64_t now = ended.load(std::memory_order_relaxed);
  if (threads <= threads_known && now == ended_before) return;
#pragma omp parallel
  if (omp_get_thread_num() != 0) {
    thread_local PoolThread self;
    if (!self.holds) hold_signals();
    self.holds = true;
  }
  threads_known = threads;
  ended_before = now;
}

}  // namespace

SignalsHeld::SignalsHeld() : before_(hold_signals()) {
  if (!omp_in_parallel()) hold_signals_in_pool();
}

SignalsHeld::~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

namespace {

// Of this process's threads.  One that yields counts: while the pool gives way, its threads and the other runtime's do.
uint64_t involuntary_switches() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_nivcsw);
}
std::atomic<uint64_t> given_way{0};  // those of such times

}  // namespace

uint64_t preemptions() { return involuntary_switches() - given_way.load(std::memory_order_relaxed); }

namespace {

// Whether the calling thread's pool spins: whether the clock of its second thread goes on.  A region that found it
// asleep would cost what waking a thread does, up to milliseconds.
bool pool_spins() {
  thread_local clockid_t clock = -1;
  timespec before, after;
  if (clock == -1 || clock_gettime(clock, &before)) {  // none so far, or the thread has ended
    bool found = false;
    clockid_t second = -1;
#pragma omp parallel
    if (omp_get_thread_num() == 1) found = pthread_getcpuclockid(pthread_self(), &second) == 0;
    if (!found) return false;
    clock = second;
    if (clock_gettime(clock, &before)) return false;
  }
  if (clock_gettime(clock, &after)) return false;
  return before.tv_nsec != after.tv_nsec || before.tv_sec != after.tv_sec;
}

}  // namespace

void with_pool_aside(const std::function<void()>& work) {
  omp_get_max_threads() == 1 || omp_in_parallel() || !pool_spins() ? work() : while_pool_yields(work);
}

void while_pool_yields(const std::function<void()>& work) {
  const uint64_t before = involuntary_switches();
  std::atomic<bool> done{false};
  std::exception_ptr problem;
#pragma omp parallel
  if (omp_get_thread_num() == 0) {
    try {
      work();
    } catch (...) {
      problem = std::current_exception();
    }
    done.store(true, std::memory_order_release);
  } else {
    while (!done.load(std::memory_order_acquire)) sched_yield();
  }
  given_way += involuntary_switches() - before;
  if (problem) std::rethrow_exception(problem);
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
