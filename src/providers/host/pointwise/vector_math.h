// Elementary functions without branches or tables, so that loops over them become vector code.
//
// Polynomials were fitted for this file by weighted least squares towards the minimax (Lawson's iteration) against
// 40-digit values.  Error bounds, in units of the last place of f32 unless said otherwise, hold over the whole
// range (tests/c/test_host_elementwise.cpp measures them): exp 2, expm1 3, log 2, log1p 3, tanh 3, sigmoid 3, erf 3,
// erfc 3, erfinv 4, sin and cos 2, gelu 2e-7 * |x| absolute, 3e-7 without fused multiply-adds.  NaN gives NaN; infinities,
// overflow and subnormal results are right.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "providers/host/common/simd.h"

namespace pl::host::math {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

PL_INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
PL_INLINE float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
PL_INLINE float abs(float x) { return from_bits(bits_of(x) & 0x7fffffffu); }
PL_INLINE float copy_sign(float magnitude, float sign) {
  return from_bits((bits_of(magnitude) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

// NaN where one is NaN, as torch.
PL_INLINE float maximum(float a, float b) { return a != a ? a : (a >= b ? a : b); }
PL_INLINE float minimum(float a, float b) { return a != a ? a : (a <= b ? a : b); }
// minimum(maximum(x, low), high) for limits that are numbers.
template <class T>
PL_INLINE T clip(T x, T low, T high) {
  const T above = low > x ? low : x;
  return high < above ? high : above;
}

// Adding and subtracting this rounds a float of magnitude below 2^22 to the nearest integer, which then lies in
// the low bits of the sum.
constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
constexpr uint32_t kRoundBits = 0x4b400000u;
constexpr double kRound64 = 6755399441055744.0;  // 1.5 * 2^52, as much for doubles below 2^51
// 2^n for the integer n in the low bits of a sum with kRound64.
PL_INLINE double power_of_two(double sum) {
  uint64_t bits;
  std::memcpy(&bits, &sum, 8);
  bits = (bits + 1023u) << 52;
  double power;
  std::memcpy(&power, &bits, 8);
  return power;
}

// exp(x) = 2^n * e^r with n = round(x / ln 2), |r| <= ln(2) / 2.
struct Reduced {
  float r;
  uint32_t n;  // as a two's complement integer
};
PL_INLINE Reduced reduce_exp(float x) {
  const float shifted = x * 1.44269504089f + kRound;
  const float n = shifted - kRound;
  // ln 2 in two parts, the first with zeros at its end, so that n * part is exact.
  return {(x - n * 0.693359375f) + n * 2.12194440e-4f, bits_of(shifted) - kRoundBits};
}
// e^r for |r| <= ln(2) / 2.
PL_INLINE float exp_series(float r) {
  float p = 1.3950512512e-03f;
  p = p * r + 8.3689028397e-03f;
  p = p * r + 4.1666205972e-02f;
  p = p * r + 1.6666518152e-01f;
  p = p * r + 0.5f;
  p = (p * r) * r + r;
  return p + 1.0f;
}
// p * 2^n in two factors, as 2^n alone may be out of range though the product is not.
PL_INLINE float times_power_of_two(float p, uint32_t n) {
  const uint32_t half = uint32_t(int32_t(n) >> 1);
  return p * from_bits((half + 127u) << 23) * from_bits((n - half + 127u) << 23);
}
PL_INLINE float exp(float x) {
  x = x > 89.0f ? 89.0f : x;      // e^89 is infinite in f32
  x = x < -104.0f ? -104.0f : x;  // e^-104 is zero
  const auto [r, n] = reduce_exp(x);
  return times_power_of_two(exp_series(r), n);
}

PL_INLINE float expm1(float x) {
  const float z = exp(x) - 1.0f;
  const float r = abs(x) < 0.35f ? x : 0.0f;
  float p = 1.9913568394e-04f;
  p = p * r + 1.3941003708e-03f;
  p = p * r + 8.3332741633e-03f;
  p = p * r + 4.1666354984e-02f;
  p = p * r + 1.6666667163e-01f;
  p = p * r + 0.5f;
  p = (p * r) * r + r;
  return abs(x) < 0.35f ? p : z;
}

// x = (1 + f) * 2^e with 1 + f in [sqrt(1/2), sqrt(2)), for 0 < x < infinity.
struct Scaled {
  float f, e;
};
PL_INLINE Scaled reduce_log(float x) {
  const bool small = x < 1.17549435e-38f;  // subnormal: scaled by 2^23 first
  const uint32_t shifted = bits_of(small ? x * 8388608.0f : x) - 0x3f3504f3u;
  return {from_bits((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f,
          float(int32_t(shifted) >> 23) - (small ? 23.0f : 0.0f)};
}
PL_INLINE float log(float x) {
  const auto [f, e] = reduce_log(x);
  float p = -7.8601412475e-02f;
  p = p * f + 1.2881380320e-01f;
  p = p * f - 1.3128417730e-01f;
  p = p * f + 1.4181217551e-01f;
  p = p * f - 1.6624595225e-01f;
  p = p * f + 2.0002286136e-01f;
  p = p * f - 2.5000807643e-01f;
  p = p * f + 3.3333316445e-01f;
  const float f2 = f * f;
  float y = p * f * f2 - e * 2.12194440e-4f - 0.5f * f2;
  y = (y + f) + e * 0.693359375f;
  y = x == 0.0f ? -kInfinity : y;
  y = x < 0.0f ? kNaN : y;
  return x < kInfinity ? y : x;  // infinity and NaN as they are, minus infinity was NaN already
}

PL_INLINE float log1p(float x) {
  const float u = 1.0f + x;
  const float d = u - 1.0f;
  // Corrects what was lost in u; W. Kahan's way.
  const float y = log(u) * (d == 0.0f ? 1.0f : x / d);
  return d == 0.0f ? x : (u == kInfinity || u == 0.0f ? log(u) : y);
}

// e / (e + 2) with e = expm1(2 |x|): the same steps for all x, one division.
PL_INLINE float tanh(float x) {
  float a = abs(x);
  a = a > 9.02f ? 9.02f : a;  // from where on the result is 1 in f32
  const auto [r, n] = reduce_exp(a + a);
  float p = 1.3950512512e-03f;  // those of exp
  p = p * r + 8.3689028397e-03f;
  p = p * r + 4.1666205972e-02f;
  p = p * r + 1.6666518152e-01f;
  p = p * r + 0.5f;
  p = (p * r) * r + r;
  const float scale = from_bits((n + 127u) << 23), e = p * scale + (scale - 1.0f);
  return copy_sign(e / (e + 2.0f), x);
}

PL_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

// erfc(x) for x >= 0: t * exp(P(t) - x^2) with t = 1 / (1 + x / 2), the form of C. Hastings' approximations.
PL_INLINE float erfc_positive(float x) {
  const float t = 1.0f / (1.0f + 0.5f * x);
  float p = -8.6429595947e-02f;
  p = p * t + 4.1169804335e-01f;
  p = p * t - 5.9825867414e-01f;
  p = p * t - 1.9039440155e-01f;
  p = p * t + 1.4611904621e+00f;
  p = p * t - 1.5436606407e+00f;
  p = p * t + 6.6751664877e-01f;
  p = p * t - 3.7013044953e-01f;
  p = p * t + 1.4725661278e-01f;
  p = p * t + 3.6603644490e-01f;
  p = p * t + 1.0007120371e+00f;
  p = p * t - 1.2655365467e+00f;
  return t * exp(p - x * x);
}
PL_INLINE float erf(float x) {
  const float a = abs(x);
  const float z = x * x;
  float p = 7.8538578236e-05f;
  p = p * z - 8.0101925414e-04f;
  p = p * z + 5.1883277483e-03f;
  p = p * z - 2.6853810996e-02f;
  p = p * z + 1.1283585429e-01f;
  p = p * z - 3.7612625957e-01f;
  p = p * z + 1.1283791065e+00f;
  const float far = copy_sign(1.0f - erfc_positive(a > 12.0f ? 12.0f : a), x);
  return a < 1.0f ? p * x : (x != x ? x : far);
}
// t P(t) e^(-x^2) with the t of erfc_positive.  The square, its reduction and the last steps are in double: there are
// too many of them to round each.
PL_INLINE float erfc(float x) {
  float a = abs(x);
  a = a > 10.1f ? 10.1f : a;  // from where on the result is 0, or 2
  // 1 / (1 + a / 2), by a step of Newton's method from its value in f32.
  const double start = double(1.0f / (1.0f + 0.5f * a));
  const double t = start + start * (1.0 - start * (1.0 + 0.5 * double(a)));
  const float u = float(t - 0.5625);
  float p = 3.576714533e-02f;
  p = p * u + 1.015660967e-02f;
  p = p * u - 7.642478645e-02f;
  p = p * u + 1.469993339e-02f;
  p = p * u + 1.128819674e-01f;
  p = p * u - 6.354804762e-02f;
  p = p * u - 1.983102497e-01f;
  p = p * u + 9.921122042e-02f;
  p = p * u + 5.820129714e-01f;
  p = p * u + 7.585615098e-01f;
  const double series = double(p) * (t - 0.5625) + 5.559551408e-01;
  const double power = -double(a) * double(a);
  const double shifted = power * 1.4426950408889634 + kRound64;
  const float r = float(power - (shifted - kRound64) * 0.69314718055994531);
  const float y = float(series * t * double(exp_series(r)) * power_of_two(shifted));
  return x < 0.0f ? 2.0f - y : y;
}
// By the logarithm of 1 - x^2: M. Giles, Approximating the erfinv function, 2010.
PL_INLINE float erfinv(float x) {
  const float a = abs(x), w = -log((1.0f - a) * (1.0f + a));
  const float u = w - 2.5f, v = __builtin_sqrtf(w < 5.0f ? 5.0f : w) - 3.0f;
  float near = 2.81022636e-08f;
  near = near * u + 3.43273939e-07f;
  near = near * u - 3.5233877e-06f;
  near = near * u - 4.39150654e-06f;
  near = near * u + 0.00021858087f;
  near = near * u - 0.00125372503f;
  near = near * u - 0.00417768164f;
  near = near * u + 0.246640727f;
  near = near * u + 1.50140941f;
  float far = -0.000200214257f;
  far = far * v + 0.000100950558f;
  far = far * v + 0.00134934322f;
  far = far * v - 0.00367342844f;
  far = far * v + 0.00573950773f;
  far = far * v - 0.0076224613f;
  far = far * v + 0.00943887047f;
  far = far * v + 1.00167406f;
  far = far * v + 2.83297682f;
  const float y = (w < 5.0f ? near : far) * x;
  return a == 1.0f ? x * kInfinity : (a > 1.0f ? kNaN : y);
}

// erf(x / sqrt(2)) as x P(x^2) / Q(x^2), fitted in absolute error (1.9e-8): a quarter of the time that erfc and its
// exponential take.
PL_INLINE float erf_of_gelu(float x) {
  const float z = x * x;
  float p = 4.429008982e-08f, q = 1.180202503e-06f;
  p = p * z + 1.271302153e-05f, q = q * z + 7.510212163e-05f;
  p = p * z + 3.477036953e-04f, q = q * z + 1.912984881e-03f;
  p = p * z + 9.414532222e-03f, q = q * z + 2.894016355e-02f;
  p = p * z + 6.875249743e-02f, q = q * z + 2.528342009e-01f;
  p = p * z + 7.978844643e-01f, q = q * z + 1.0f;
  constexpr float kOne = 5.5f;  // beyond, erf rounds to 1
  float e = p * x / q;
  e = x > kOne ? 1.0f : e;
  return x < -kOne ? -1.0f : e;
}
// x / 2 * (1 + erf(x / sqrt(2))).  Far to the left the sum cancels, as in PyTorch.
PL_INLINE float gelu_erf(float x) {
  const float half = 0.5f * x;
  return half * erf_of_gelu(x) + half;
}

// Its derivative: the same erf, in a third of the time that an exact one takes; errors of 3e-7 of 1.
PL_INLINE float gelu_erf_slope(float x) {
  return 0.5f + 0.5f * erf_of_gelu(x) + x * exp(-0.5f * x * x) * 0.3989422804014327f;
}

// sin, cos and tan for |x| <= 2^20; the callers hand larger arguments to the C library.  The reduction by pi / 2 is in
// double, where it is exact enough for every float of that range.
constexpr float kTrigonometricLimit = 1048576.0f;
struct Turn {
  float r;
  uint32_t quadrant;  // its two low bits
};
PL_INLINE Turn reduce_turn(float x) {
  const double shifted = double(x) * 0.63661977236758134308 + kRound64;
  const double n = shifted - kRound64;
  // pi / 2 in two parts; the first has 33 bits, n at most 20, so that their product is exact.
  const float r = float((double(x) - n * 1.5707963267341256) - n * 6.077100506506192e-11);
  uint64_t bits;
  std::memcpy(&bits, &shifted, 8);
  return {r, uint32_t(bits)};
}
PL_INLINE float sin_quadrant(float x, uint32_t turn) {
  const auto [r, turns] = reduce_turn(x);
  const uint32_t quadrant = turns + turn;
  const float z = r * r;
  float s = -1.9512380823e-04f;
  s = s * z + 8.3321435377e-03f;
  s = s * z - 1.6666653752e-01f;
  s = s * z * r + r;
  float c = 2.4433618819e-05f;
  c = c * z - 1.3887328096e-03f;
  c = c * z + 4.1666645557e-02f;
  c = c * z * z - 0.5f * z + 1.0f;
  const float y = quadrant & 1u ? c : s;
  return from_bits(bits_of(y) ^ ((quadrant & 2u) << 30));
}
PL_INLINE float sin(float x) { return x == 0.0f ? x : sin_quadrant(x, 0); }  // a zero keeps its sign
PL_INLINE float cos(float x) { return sin_quadrant(x, 1); }

PL_INLINE float softplus(float x, float beta, float threshold) {
  const float scaled = x * beta;
  return scaled > threshold ? x : log1p(exp(scaled)) / beta;
}

// x * tanh(log(1 + e^x)) = x * (e^2x + 2 e^x) / (e^2x + 2 e^x + 2)
PL_INLINE float mish(float x) {
  const float e = exp(x > 20.0f ? 20.0f : x);
  const float n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}

}  // namespace pl::host::math
