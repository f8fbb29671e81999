// x^y = 2^(y log2 |x|) in double, without branches, with all of C's special cases: 0.51 ulp, so that a power that is a
// float is that float.
#pragma once

#include "providers/host/pointwise/vector_math.h"

namespace pl::host::math {

// log2(a) for 0 < a < infinity to 2^-38 of it; polynomials as in vector_math.h.
PL_INLINE double log2_of_positive(float a) {
  const Scaled scaled = reduce_log(a);
  const auto f = double(scaled.f);
  double p = -6.9738385343592557e-2;
  p = p * f + 1.3251164711225422e-1;
  p = p * f - 1.3462957037113936e-1;
  p = p * f + 1.3027575238123702e-1;
  p = p * f - 1.4249860041272281e-1;
  p = p * f + 1.602166490883109e-1;
  p = p * f - 1.8043675315199144e-1;
  p = p * f + 2.0610712417334406e-1;
  p = p * f - 2.4044643349451166e-1;
  p = p * f + 2.8853879569768753e-1;
  p = p * f - 3.606737931385499e-1;
  p = p * f + 4.808983488031609e-1;
  p = p * f - 7.2134752032754462e-1;
  p = p * f + 1.442695040886574;
  return p * f + double(scaled.e);
}

// 2^t for |t| <= 200 to 2^-34 of it.
PL_INLINE double exp2_of_double(double t) {
  const double shifted = t + kRound64;
  const double f = t - (shifted - kRound64);
  double p = 1.5314926104485436e-5;
  p = p * f + 1.5467120247464393e-4;
  p = p * f + 1.333343088910541e-3;
  p = p * f + 9.6180368944698802e-3;
  p = p * f + 5.5504109624236752e-2;
  p = p * f + 2.4022651075819485e-1;
  p = p * f + 6.9314718054171187e-1;
  return (p * f + 1.0) * power_of_two(shifted);
}

PL_INLINE float exp2_of_product(float y, double logarithm) {
  double t = double(y) * logarithm;
  t = t > 200.0 ? 200.0 : t;  // infinite in f32
  t = t < -200.0 ? -200.0 : t;
  return float(exp2_of_double(t));
}

PL_INLINE float pow(float x, float y) {
  const float a = abs(x), half = 0.5f * y;
  double logarithm = log2_of_positive(a);
  logarithm = a == 0.0f ? -double(kInfinity) : logarithm;
  logarithm = a < kInfinity ? logarithm : double(a);  // infinity and NaN
  float result = exp2_of_product(y, logarithm);
  result = a == 1.0f ? (y == y ? 1.0f : y) : result;  // of infinite powers, too
  // The sign of x for odd integers.  Of a finite negative x, other powers than by integers and infinity are NaN.
  const float of_whole = from_bits(bits_of(result) | (__builtin_truncf(half) == half ? 0u : bits_of(x) & 0x80000000u));
  const float of_fraction = ((x < 0.0f) & (a < kInfinity)) ? kNaN : result;
  result = __builtin_truncf(y) == y ? of_whole : of_fraction;
  return ((x == 1.0f) | (y == 0.0f)) ? 1.0f : result;
}

}  // namespace pl::host::math
