// Trigonometric and hyperbolic functions and their inverses, in the manner of vector_math.h, whose header says where
// polynomials come from.
//
// Error bounds in units of the last place of f32 over the whole range, with and without fused multiply-adds, measured
// by tests/c/test_host_elementwise.cpp: tan 3, asin, acos, atan, atan2, sinh, cosh and atanh 2.  Zeros keep their sign,
// arguments outside the domain give NaN.
#pragma once

#include "providers/host/pointwise/vector_math.h"

namespace pl::host::math {

constexpr float kHalfPi = 1.57079637e+00f, kHalfPiRest = -4.37113883e-08f;  // their sum is pi / 2 in 48 bits

// For |x| <= kTrigonometricLimit.
PL_INLINE float tan(float x) {
  const auto [r, quadrant] = reduce_turn(x);
  const float z = r * r;
  float p = 4.381516538e-03f;
  p = p * z + 7.919378256e-05f;
  p = p * z + 1.084374317e-02f;
  p = p * z + 2.127921711e-02f;
  p = p * z + 5.40604747e-02f;
  p = p * z + 1.333265855e-01f;
  p = p * z + 3.333334989e-01f;
  const float t = (p * z) * r + r;
  return quadrant & 1u ? -1.0f / t : t;
}

// asin(s) / s - 1 for z = s^2 <= 1 / 4.
PL_INLINE float asin_series(float z) {
  float p = 3.751568683e-02f;
  p = p * z + 1.443912282e-02f;
  p = p * z + 3.18075932e-02f;
  p = p * z + 4.451696772e-02f;
  p = p * z + 7.500504143e-02f;
  p = p * z + 1.666665999e-01f;
  return p * z;
}
// Above 1 / 2 by asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)); the root of a negative number is NaN.
PL_INLINE float asin(float x) {
  const float a = abs(x);
  const bool near = a < 0.5f;
  const float z = near ? a * a : (1.0f - a) * 0.5f;
  const float s = near ? a : __builtin_sqrtf(z);
  const float rest = asin_series(z) * s;
  const float far = (kHalfPi - 2.0f * s) - (2.0f * rest - kHalfPiRest);
  return copy_sign(near ? s + rest : far, x);
}
PL_INLINE float acos(float x) {
  const float a = abs(x);
  const bool near = a < 0.5f;
  const float z = near ? a * a : (1.0f - a) * 0.5f;
  const float s = near ? x : __builtin_sqrtf(z);
  const float rest = asin_series(z) * s;
  const float middle = kHalfPi - (s + (rest - kHalfPiRest));
  const float far = 2.0f * (s + rest);
  return near ? middle : (x < 0.0f ? 2.0f * middle : far);
}

// atan(t) / t - 1 for z = t^2 <= 1.
PL_INLINE float atan_series(float z) {
  float p = 1.113742781e-03f;
  p = p * z - 7.31772698e-03f;
  p = p * z + 2.253938011e-02f;
  p = p * z - 4.468937019e-02f;
  p = p * z + 6.741556634e-02f;
  p = p * z - 8.811073639e-02f;
  p = p * z + 1.105821897e-01f;
  p = p * z - 1.427983234e-01f;
  p = p * z + 1.999967107e-01f;
  p = p * z - 3.33333269e-01f;
  return p * z;
}
PL_INLINE float atan(float x) {
  const float a = abs(x);
  const bool far = a > 1.0f;
  const float t = far ? 1.0f / a : a;
  const float rest = atan_series(t * t) * t;
  return copy_sign(far ? kHalfPi - (t + (rest - kHalfPiRest)) : t + rest, x);
}
// By the smaller one over the larger one, which is in [0, 1].
PL_INLINE float atan2(float y, float x) {
  const float a = abs(x), b = abs(y);
  const bool steep = b > a, left = (bits_of(x) & 0x80000000u) != 0;
  const float large = steep ? b : a, small = steep ? a : b;
  float t = small / large;
  t = small == large ? 1.0f : t;  // of two infinities, too
  t = large == 0.0f ? 0.0f : t;
  const float rest = atan_series(t * t) * t;
  // pi / 2 - atan(t), pi - atan(t) or, left of a steep line, pi / 2 + atan(t).
  const float sign = steep == left ? 1.0f : -1.0f;
  const float turned =
      steep ? kHalfPi + (sign * t + (sign * rest + kHalfPiRest)) : 2.0f * kHalfPi - (t + (rest - 2.0f * kHalfPiRest));
  const float angle = copy_sign(steep || left ? turned : t + rest, y);
  return a != a || b != b ? x + y : angle;
}

// e^a / 2 for a >= 0: infinite from where on sinh is.
PL_INLINE float half_exp(float a) {
  a = a > 90.0f ? 90.0f : a;
  const auto [r, n] = reduce_exp(a);
  return times_power_of_two(exp_series(r), n - 1u);
}
PL_INLINE float sinh(float x) {
  const float a = abs(x), z = a * a;
  float p = 2.816951367e-06f;
  p = p * z + 1.983615975e-04f;
  p = p * z + 8.333350058e-03f;
  p = p * z + 1.66666665e-01f;
  const float near = (p * z) * a + a;
  const float e = half_exp(a);
  return copy_sign(a < 1.0f ? near : e - 0.25f / e, x);
}
PL_INLINE float cosh(float x) {
  const float e = half_exp(abs(x));
  return e + 0.25f / e;
}
PL_INLINE float atanh(float x) {
  const float a = abs(x), z = a * a;
  float p = 1.759420803e-01f;
  p = p * z + 2.452229819e-02f;
  p = p * z + 1.028267776e-01f;
  p = p * z + 1.096718371e-01f;
  p = p * z + 1.429485291e-01f;
  p = p * z + 1.999972754e-01f;
  p = p * z + 3.333333606e-01f;
  const float near = (p * z) * a + a;
  const float far = 0.5f * log((1.0f + a) / (1.0f - a));
  return copy_sign(a < 0.5f ? near : far, x);
}

}  // namespace pl::host::math
