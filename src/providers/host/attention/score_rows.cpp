#include "providers/host/attention/score_rows.h"

#include "providers/host/common/independent.h"
#include "providers/host/common/largest.h"

namespace pl::host {
namespace {

constexpr int kLanes = kScoreLanes;

// The lanes joined in pairs; the numbers of pairs are constants, so that no loop is left.
template <int Half = kLanes / 2>
PL_INLINE float joined(float* lanes) {
  for (int l = 0; l < Half; ++l) lanes[l] += lanes[l + Half];
  if constexpr (Half > 1)
    return joined<Half / 2>(lanes);
  else
    return lanes[0];
}
// A lower number, but for -infinity, counts as this in a mask: in units of ln 2 it would overflow, and keys that all
// have the lowest number of f32 would no longer count alike.
constexpr float kLowestOfMask = -2.35e38f;
// Two passes over a row that lies in the nearest cache: of a loop that keeps the largest too compilers make scalars.
template <bool Hides>
PL_VECTORISED float masked_largest(const float* mask, float* x, int64_t n, float largest) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float added = mask[i];
    if constexpr (Hides) {
      x[i] = added != 0.0f ? x[i] : -math::kInfinity;
    } else {
      const float limited = added < kLowestOfMask ? kLowestOfMask : added;
      x[i] += kPerLn2 * (added == -math::kInfinity ? added : limited);
    }
  }
  return largest_of_values(x, n, largest);
}

}  // namespace

PL_VECTORISED float largest_of(const float* x, int64_t n, float largest) { return largest_of_values(x, n, largest); }

float mask_and_largest(bool hides, const float* mask, float* x, int64_t n, float largest) {
  return hides ? masked_largest<true>(mask, x, n, largest) : masked_largest<false>(mask, x, n, largest);
}

PL_VECTORISED void cap_run(float* x, int64_t n, float limit) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) x[i] = limit * math::tanh(x[i]);
}

PL_VECTORISED float exponentials(float* x, int64_t n, float largest) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      x[i + l] = power_of_two(x[i + l] - largest);
      lanes[l] += x[i + l];
    }
  return joined<>(lanes);
}

}  // namespace pl::host
