#include "providers/host/normalise/row_sums.h"

#include "providers/host/common/host.h"

namespace pl::host {
namespace {

constexpr int kLanes = 16;

}  // namespace

PL_VECTORISED double sum_of(const float* x, int64_t n) {
  double total = 0;
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t end = std::min(n, start + kChunk);
    float lanes[kLanes] = {};
    int64_t i = start;
    for (; i + kLanes <= end; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l];
    for (; i < end; ++i) lanes[0] += x[i];
    for (int l = 0; l < kLanes; ++l) total += double(lanes[l]);
  }
  return total;
}

}  // namespace pl::host
