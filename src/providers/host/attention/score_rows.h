// Rows of scores: sixteen at a time, in units of ln 2, which saves the range reduction of exp.
#pragma once

#include <cstdint>

#include "providers/host/common/simd.h"
#include "providers/host/pointwise/vector_math.h"

namespace pl::host {

constexpr int kScoreLanes = 16;
constexpr float kPerLn2 = 1.44269504089f;  // 1 / ln 2

// 2^x for x <= 0: scores are kept in units of ln 2, which saves the range reduction of exp.  Below -126 it is 0.  The
// polynomial was fitted to 2^f, |f| <= 1/2, by least squares weighted towards the minimax: 1.5 units of the last place.
PL_INLINE float power_of_two(float x) {
  const float limited = x < -126.0f ? -126.0f : x;
  const float shifted = limited + math::kRound;
  const float f = limited - (shifted - math::kRound);
  float p = 1.3264726899e-03f;
  p = p * f + 9.6715126606e-03f;
  p = p * f + 5.5507337442e-02f;
  p = p * f + 2.4022242085e-01f;
  p = p * f + 6.9314697760e-01f;
  p = p * f + 1.0f;
  const float result = p * math::from_bits((math::bits_of(shifted) - math::kRoundBits + 127u) << 23);
  return x < -126.0f ? 0.0f : result;
}

// y[i, j] = factor * (row i of q . row j of k), of that width: few of q, whose rows and those of k lie apart by steps.
struct RowScores {
  const float *q, *k;
  int64_t q_step, k_step, rows, count, width;
  float factor;
  float* y;
  int64_t y_step;
};
void row_scores(const RowScores& of);

// n is a multiple of kScoreLanes for the first and the last.

// The largest of x and of `largest`; passes over NaN, which the sum of exponentials then shows.
float largest_of(const float* x, int64_t n, float largest);
// The same after `mask` was added, or, where it `hides`, has hidden what it is 0 for.
float mask_and_largest(bool hides, const float* mask, float* x, int64_t n, float largest);
// x becomes limit * tanh(x).
void cap_run(float* x, int64_t n, float limit);
// x becomes 2^(x - largest) for x <= largest; returns the sum.
float exponentials(float* x, int64_t n, float largest);

}  // namespace pl::host
