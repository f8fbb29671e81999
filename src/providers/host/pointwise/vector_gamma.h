// log |gamma(x)| in double, without branches: 0.51 ulp, but near the zeros at negative x, where the error is below 1e-9.
// Polynomials as in vector_math.h.
#pragma once

#include "providers/host/pointwise/vector_math.h"

namespace pl::host::math {

// a = (1 + f) * 2^e with 1 + f in [sqrt(1/2), sqrt(2)), for a normal a > 0; 2^-38 of the logarithm.
PL_INLINE double log_of_double(double a) {
  uint64_t bits;
  std::memcpy(&bits, &a, 8);
  constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcdu, kBias = uint64_t(1023) << 52;
  const uint64_t shifted = bits - kRootOfHalf + kBias;
  const uint64_t mantissa = (shifted & 0x000fffffffffffffu) + kRootOfHalf;
  const uint64_t exponent = (shifted >> 52) | 0x4330000000000000u;  // 2^52 and it
  double m, e;
  std::memcpy(&m, &mantissa, 8);
  std::memcpy(&e, &exponent, 8);
  e -= 4503599627370496.0 + 1023.0;
  const double f = m - 1.0, s = f / (2.0 + f), square = s * s;
  double p = 2.0 / 15.0;
  p = p * square + 2.0 / 13.0;
  p = p * square + 2.0 / 11.0;
  p = p * square + 2.0 / 9.0;
  p = p * square + 2.0 / 7.0;
  p = p * square + 0.4;
  p = p * square + 2.0 / 3.0;
  p = p * square + 2.0;
  return p * s + e * 0.69314718055994531;
}

// With z = |x|: between 1 and 2.5 a polynomial times the zeros at 1 and 2, below by gamma(z) = gamma(z + 1) / z, above by
// Stirling's series, of z + 6 where z is less than 8.  Of x < 0 by gamma(x) gamma(-x) = -pi / (x sin(pi x)).
PL_INLINE float lgamma(float x) {
  const float a = abs(x);
  const double z = double(a < 1.0e-45f ? 1.0e-45f : a);
  const bool small = z < 1.0, near = z <= 2.5, shifted = z < 8.0;

  const double u = small ? z + 1.0 : z, v = u - 1.75;
  double p = 2.3112221450489204e-5;
  p = p * v - 4.2870231093093634e-5;
  p = p * v + 3.1069095361256444e-5;
  p = p * v - 5.8845963936899396e-5;
  p = p * v + 1.5336210701206187e-4;
  p = p * v - 2.9212466234906973e-4;
  p = p * v + 5.4374457546778359e-4;
  p = p * v - 1.0584415138371702e-3;
  p = p * v + 2.095672702914102e-3;
  p = p * v - 4.2264500325827438e-3;
  p = p * v + 8.776363114801563e-3;
  p = p * v - 1.9053944354853111e-2;
  p = p * v + 4.4520447309150354e-2;
  p = p * v - 1.194815868291828e-1;
  p = p * v + 4.501393121092563e-1;
  const double of_near = (u - 1.0) * (u - 2.0) * p;

  const double w = shifted ? z + 6.0 : z, inverse = 1.0 / w, square = inverse * inverse;
  double series = -1.0 / 1680.0;
  series = series * square + 1.0 / 1260.0;
  series = series * square - 1.0 / 360.0;
  series = series * square + 1.0 / 12.0;
  const double of_far = (w - 0.5) * log_of_double(w) - w + 0.91893853320467274 + series * inverse;

  const double product = shifted ? z * (z + 1.0) * (z + 2.0) * (z + 3.0) * (z + 4.0) * (z + 5.0) : 1.0;
  const double sum = near ? of_near : of_far;
  const double factor = small ? z : (near ? 1.0 : product);  // log gamma(z) = sum - log(factor)

  const float t = a - __builtin_rintf(a);
  const double t2 = double(t) * double(t);
  double sine = -2.113362735205297e-5;
  sine = sine * t2 + 4.6598701580433779e-4;
  sine = sine * t2 - 7.3703643265304157e-3;
  sine = sine * t2 + 8.2145878816310427e-2;
  sine = sine * t2 - 5.9926452882522401e-1;
  sine = sine * t2 + 2.5501640398618676;
  sine = sine * t2 - 5.1677127800497858;
  sine = sine * t2 + 3.1415926535897929;
  sine = sine * double(abs(t));

  const bool negative = x < 0.0f;
  const double rest = log_of_double(negative ? factor / (z * sine) : 1.0 / factor);
  const float y = float((negative ? 1.1447298858494002 - sum : sum) + rest);
  const bool pole = ((t == 0.0f) & negative) | (a == 0.0f) | (a == kInfinity);
  return x == x ? (pole ? kInfinity : y) : x;
}

}  // namespace pl::host::math
