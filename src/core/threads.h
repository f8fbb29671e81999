// Threads of `cpu` ops.  oneDNN and the host provider share one OpenMP pool (libgomp); this is the one place
// that sets how many threads an op of the calling thread uses.
#pragma once

namespace pl {

int available_processors();     // that this process may run on
void use_threads(int threads);  // for parallel regions the calling thread starts from now on; cheap if unchanged

// Throws Error(device) in a process that was forked after this was first called: work there would wait for ever for
// threads that only the parent has.
void refuse_after_fork();

}  // namespace pl
