// Threads of `cpu` ops.  oneDNN and the host provider share one OpenMP pool (libgomp); this is the one place
// that sets how many threads an op of the calling thread uses.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace pl {

int available_processors();  // that this process may run on
// As many threads as processors, or as OMP_NUM_THREADS says, if these are fewer: torchrun and batch systems set it where
// several processes share a machine.
int default_threads();
void use_threads(int threads);  // for parallel regions the calling thread starts from now on; cheap if unchanged

// Whether idle threads of the pool sleep at once, as the environment asks (OMP_WAIT_POLICY=passive, GOMP_SPINCOUNT=0):
// waking them costs tens of microseconds each time, so that other times hold then.
bool threads_sleep();

// Of every call from outside: gives the calling thread its own number of threads back at the end.  The pool is the
// caller's, too: PyTorch's torch.set_num_threads(1) sets the same number, and its compiled code asks whether it changed.
class CallersThreads {
 public:
  CallersThreads();
  ~CallersThreads();
  CallersThreads(const CallersThreads&) = delete;
  CallersThreads& operator=(const CallersThreads&) = delete;

 private:
  const int threads_;
};

// Throws Error(device) in a process that was forked after this was first called: work there would wait for ever for
// threads that only the parent has.
void refuse_after_fork();
// Whether that would throw.  Locks may be held for ever there, by threads that only the parent has.
bool is_forked_child();

// Makes the pool's threads as they are within a program: awake.  libgomp's threads spin for some milliseconds after a
// parallel region before they sleep.  The next region starts at once then, and threads of another runtime (an OpenCL
// runtime on the CPU) have to share the cores with them; a time taken with the pool asleep would promise the reverse.
void wake_threads();
// Wakes the pool and makes sure that its threads are running at this very moment: on a busy machine the last of them
// may have got its processor just as the first one's time slice ended.  Tries a few times.
void wake_together();

// Calls `work`, which the calling thread does together with threads of another runtime: a kernel of Intel's OpenCL
// runtime on the CPU.  If the pool's threads spin meanwhile, those get hardly any time: the operating system lets a
// thread that spins on for a time slice, and what two processors do takes twice as long.  So the pool's threads, if
// they are awake, give way meanwhile, still awake for the region that comes next: 1x1 256->1024 at 14x14 on two
// processors, one oneDNN op between two of OpenCL: 614 us before, 313 now, 298 with the pool asleep.  That costs 2 us.
// Pausing the pool (omp_pause_resource) is no help: the next region waits for new threads.
void with_pool_aside(const std::function<void()>& work);
void while_pool_yields(const std::function<void()>& work);  // the same, whether they are awake or not

// While one lives, no signal handler runs on the calling thread nor on the threads of its pool: signals wait, those that
// a fault raises excepted.  For code that keeps data where a handler's frame would go (oneDNN's products of matrices).
// The pool's threads hold signals back from then on for good; other threads of the process take them as before.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

// How often the operating system took a processor away from any thread of this process so far.  A time taken while
// this number changed says more about other programs than about this one.  What happens while the pool gives way does
// not count: threads that yield cannot be told from others.
uint64_t preemptions();

// memcpy on all threads: one alone does not reach the memory's speed.
void copy_bytes(void* destination, const void* source, size_t bytes);

}  // namespace pl
