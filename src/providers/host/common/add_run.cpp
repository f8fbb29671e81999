#include "providers/host/common/add_run.h"

#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"

namespace pl::host {

PL_VECTORISED void add_run(const float* from, int64_t n, float* sums) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) sums[i] += from[i];
}

}  // namespace pl::host
