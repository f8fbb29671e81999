#include "providers/host/pool/pool_ranges.h"

namespace pl::host {
namespace {

std::vector<PoolRange> sliding_ranges(const Op& op, int axis, int64_t in, int64_t out) {
  const Window window = window_of(op, axis);
  std::vector<PoolRange> ranges;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = o * window.stride - window.begin;
    int64_t first = start, count = 0;
    for (int64_t k = 0; k < window.kernel; ++k) {
      const int64_t at = start + k * window.dilation;
      if (at < 0 || at >= in) continue;
      if (count++ == 0) first = at;
    }
    ranges.push_back({first, count, window.dilation, std::min(start + window.kernel, in + window.end) - start});
  }
  return ranges;
}

std::vector<PoolRange> adaptive_ranges(int64_t in, int64_t out) {
  std::vector<PoolRange> ranges;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t first = o * in / out, last = ((o + 1) * in + out - 1) / out;
    ranges.push_back({first, last - first, 1, last - first});
  }
  return ranges;
}

}  // namespace

void pool_ranges(const Op& op, const int64_t in[3], const int64_t out[3], std::vector<PoolRange> ranges[3]) {
  const int spatial = op.in(0).rank() - 2;
  for (int i = 0; i < 3; ++i) {
    const int axis = i - (3 - spatial);
    if (axis < 0)
      ranges[i] = {{0, 1, 1, 1}};
    else
      ranges[i] =
          op.schema->kind == "adaptive_pool" ? adaptive_ranges(in[i], out[i]) : sliding_ranges(op, axis, in[i], out[i]);
  }
}

}  // namespace pl::host
