#include "providers/host/attention/score_rows.h"

#include "providers/host/common/independent.h"
#include "providers/host/common/largest.h"
#include "providers/host/reorder/transpose.h"

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

namespace {

typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef float InMemory __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
constexpr int kAtOnce = 4;  // rows of k: sums that do not wait for each other

// lanes[j] = the products of q and row j of k, added up in sixteen parts.  Rows beyond `count` are read as the last.
PL_VECTORISED void row_products(const float* q, const float* k, int64_t k_step, int64_t count, int64_t width,
                                float* lanes) {
  const int64_t whole = width / kLanes * kLanes;
  for (int64_t j = 0; j < count; j += kAtOnce) {
    const float* rows[kAtOnce];
    Lanes sums[kAtOnce];
#pragma GCC unroll 4
    for (int r = 0; r < kAtOnce; ++r) {
      rows[r] = k + (j + r < count ? j + r : count - 1) * k_step;
      sums[r] = Lanes{};
    }
    for (int64_t e = 0; e < whole; e += kLanes) {
      const Lanes x = *reinterpret_cast<const InMemory*>(q + e);
#pragma GCC unroll 4
      for (int r = 0; r < kAtOnce; ++r) sums[r] += x * *reinterpret_cast<const InMemory*>(rows[r] + e);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kAtOnce; ++r) {
      for (int64_t e = whole; e < width; ++e) sums[r][0] += q[e] * rows[r][e];
      *reinterpret_cast<InMemory*>(lanes + (j + r) * kLanes) = sums[r];
    }
  }
}
PL_VECTORISED void add_rows(const float* rows, int64_t count, float factor, float* y) {
  float sums[kLanes] = {};
  for (int n = 0; n < kLanes; ++n)
    for (int l = 0; l < kLanes; ++l) sums[l] += rows[n * kLanes + l];
  for (int64_t i = 0; i < count; ++i) y[i] = factor * sums[i];
}

}  // namespace

void row_scores(const RowScores& of) {
  static const TransposeRun transpose = transposer(sizeof(float));
  float lanes[kLanes * kLanes] = {}, turned[kLanes * kLanes];
  for (int64_t j = 0; j < of.count; j += kLanes) {  // rows of k that stay in the nearest cache, for all of q
    const int64_t now = of.count - j < kLanes ? of.count - j : kLanes;
    for (int64_t i = 0; i < of.rows; ++i) {
      row_products(of.q + i * of.q_step, of.k + j * of.k_step, of.k_step, now, of.width, lanes);
      transpose(lanes, kLanes, turned, kLanes, kLanes, kLanes);  // adding up rows costs less than within rows
      add_rows(turned, now, of.factor, of.y + i * of.y_step + j);
    }
  }
}

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
