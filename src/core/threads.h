// Threads of `cpu` ops.  oneDNN and the host provider share one OpenMP pool (libgomp); this is the one place
// that sets how many threads an op of the calling thread uses.
#pragma once

namespace pl {

int available_processors();     // that this process may run on
void use_threads(int threads);  // for parallel regions the calling thread starts from now on; cheap if unchanged

}  // namespace pl
