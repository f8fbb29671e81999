// Threads of `cpu` ops.  oneDNN and the host provider share one OpenMP pool (libgomp); this is the one place
// that sets how many threads an op of the calling thread uses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pl {

int available_processors();     // that this process may run on
void use_threads(int threads);  // for parallel regions the calling thread starts from now on; cheap if unchanged

// Throws Error(device) in a process that was forked after this was first called: work there would wait for ever for
// threads that only the parent has.
void refuse_after_fork();

// Makes the pool's threads as they are within a program: awake.  libgomp's threads spin for some milliseconds after a
// parallel region before they sleep.  The next region starts at once then, and threads of another runtime (an OpenCL
// runtime on the CPU) have to share the cores with them; a time taken with the pool asleep would promise the reverse.
void wake_threads();
// Wakes the pool and makes sure that its threads are running at this very moment: on a busy machine the last of them
// may have got its processor just as the first one's time slice ended.  Tries a few times.
void wake_together();

// How often the operating system took a processor away from any thread of this process so far.  A time taken while
// this number changed says more about other programs than about this one.
uint64_t preemptions();

// memcpy on all threads: one alone does not reach the memory's speed.
void copy_bytes(void* destination, const void* source, size_t bytes);

}  // namespace pl
