#include "providers/host/attention/score_rows.h"

#include "providers/host/common/independent.h"

namespace pl::host {
namespace {

constexpr int kLanes = kScoreLanes;

// Passes over NaN, which the sum of exponentials then shows.
PL_INLINE float larger(float a, float b) { return a > b ? a : b; }
// Of arrays of lanes compilers make sixteen scalars here.
typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
PL_INLINE const Lanes& lanes_at(const float* x) { return *reinterpret_cast<const Lanes*>(x); }
PL_INLINE Lanes& lanes_at(float* x) { return *reinterpret_cast<Lanes*>(x); }
// The lanes joined in pairs; the numbers of pairs are constants, so that no loop is left.
template <bool Sum, int Half = kLanes / 2>
PL_INLINE float joined(float* lanes) {
  for (int l = 0; l < Half; ++l) lanes[l] = Sum ? lanes[l + Half] + lanes[l] : larger(lanes[l + Half], lanes[l]);
  if constexpr (Half > 1)
    return joined<Sum, Half / 2>(lanes);
  else
    return lanes[0];
}
// A lower number, but for -infinity, counts as this in a mask: in units of ln 2 it would overflow, and keys that all
// have the lowest number of f32 would no longer count alike.
constexpr float kLowestOfMask = -2.35e38f;
// Two passes over a row that lies in the nearest cache: of comparisons of Lanes compilers make sixteen scalars, and of
// a loop that keeps the largest too.
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
  alignas(64) float lanes[kLanes];
  Lanes most = Lanes{} + largest;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes& here = lanes_at(x + i);
    most = here > most ? here : most;
  }
  lanes_at(lanes) = most;
  for (; i < n; ++i) lanes[0] = larger(x[i], lanes[0]);
  return joined<false>(lanes);
}

}  // namespace

PL_VECTORISED float largest_of(const float* x, int64_t n, float largest) {
  alignas(64) float lanes[kLanes];
  Lanes most = Lanes{} + largest;
  for (int64_t i = 0; i < n; i += kLanes) {
    const Lanes& here = lanes_at(x + i);
    most = here > most ? here : most;
  }
  lanes_at(lanes) = most;
  return joined<false>(lanes);
}

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
  return joined<true>(lanes);
}

}  // namespace pl::host
