#include "providers/host/fourier/transform.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

typedef float Lanes __attribute__((vector_size(4 * kLines), may_alias));

// A butterfly's numbers: by reference, since how vectors are passed depends on the instruction set.
struct __attribute__((may_alias)) Complex {
  Lanes re, im;
};

PL_INLINE void turn(Complex& x, float re, float im) {
  const Lanes real = x.re * re - x.im * im;
  x.im = x.re * im + x.im * re;
  x.re = real;
}

// roots: cosines, then sines of 2 pi k / radix.
PL_INLINE void butterfly2(Complex* a) {
  const Complex x = a[0], y = a[1];
  a[0] = {x.re + y.re, x.im + y.im};
  a[1] = {x.re - y.re, x.im - y.im};
}
PL_INLINE void butterfly4(Complex* a) {
  const Complex s = {a[0].re + a[2].re, a[0].im + a[2].im}, t = {a[0].re - a[2].re, a[0].im - a[2].im},
                u = {a[1].re + a[3].re, a[1].im + a[3].im}, v = {a[1].re - a[3].re, a[1].im - a[3].im};
  a[0] = {s.re + u.re, s.im + u.im};
  a[1] = {t.re + v.im, t.im - v.re};
  a[2] = {s.re - u.re, s.im - u.im};
  a[3] = {t.re - v.im, t.im + v.re};
}
// Of an odd radix: sums and differences of each pair first.  `made`: another array of as many numbers.
PL_INLINE void butterfly_odd(const Complex* a, Complex* made, int64_t radix, const float* roots) {
  const float *cosines = roots, *sines = roots + radix;
  const int64_t half = radix / 2;
  made[0] = a[0];
  for (int64_t k = 1; k < radix; ++k) {
    made[0].re += a[k].re;
    made[0].im += a[k].im;
  }
  for (int64_t j = 1; j <= half; ++j) {
    Complex even = a[0], odd = {a[0].re - a[0].re, a[0].im - a[0].im};
    int64_t place = 0;
    for (int64_t k = 1; k <= half; ++k) {
      place += j;
      place -= place >= radix ? radix : 0;
      const Complex &x = a[k], &y = a[radix - k];
      even.re += (x.re + y.re) * cosines[place];
      even.im += (x.im + y.im) * cosines[place];
      odd.re += (x.re - y.re) * sines[place];
      odd.im += (x.im - y.im) * sines[place];
    }
    made[j] = {even.re + odd.im, even.im - odd.re};
    made[radix - j] = {even.re - odd.im, even.im + odd.re};
  }
}

struct StepOf {
  int64_t parts, stride;
  const float *twiddles, *roots;
};

template <int kRadix>
PL_INLINE void small_step(const StepOf& step, const Complex* x, Complex* y) {
  for (int64_t p = 0; p < step.parts; ++p) {
    const float* w = step.twiddles + p * 2 * (kRadix - 1);
    for (int64_t q = 0; q < step.stride; ++q) {
      Complex a[kRadix], odd[kRadix];
      for (int k = 0; k < kRadix; ++k) a[k] = x[q + step.stride * (p + k * step.parts)];
      Complex* made = a;
      if (kRadix == 2) {
        butterfly2(a);
      } else if (kRadix == 4) {
        butterfly4(a);
      } else {
        butterfly_odd(a, odd, kRadix, step.roots);
        made = odd;
      }
      Complex* to = y + q + step.stride * kRadix * p;
      to[0] = made[0];
      for (int j = 1; j < kRadix; ++j) {
        turn(made[j], w[2 * j - 2], w[2 * j - 1]);
        to[step.stride * j] = made[j];
      }
    }
  }
}

PL_VECTORISED void step2(const StepOf& step, const Complex* x, Complex* y) { small_step<2>(step, x, y); }
PL_VECTORISED void step3(const StepOf& step, const Complex* x, Complex* y) { small_step<3>(step, x, y); }
PL_VECTORISED void step4(const StepOf& step, const Complex* x, Complex* y) { small_step<4>(step, x, y); }
PL_VECTORISED void step5(const StepOf& step, const Complex* x, Complex* y) { small_step<5>(step, x, y); }
// scratch: `radix` numbers twice.
PL_VECTORISED void step_of_prime(const StepOf& step, int64_t radix, const Complex* x, Complex* y, Complex* scratch) {
  Complex *a = scratch, *made = scratch + radix;
  for (int64_t p = 0; p < step.parts; ++p) {
    const float* w = step.twiddles + p * 2 * (radix - 1);
    for (int64_t q = 0; q < step.stride; ++q) {
      for (int64_t k = 0; k < radix; ++k) a[k] = x[q + step.stride * (p + k * step.parts)];
      butterfly_odd(a, made, radix, step.roots);
      Complex* to = y + q + step.stride * radix * p;
      to[0] = made[0];
      for (int64_t j = 1; j < radix; ++j) {
        turn(made[j], w[2 * j - 2], w[2 * j - 1]);
        to[step.stride * j] = made[j];
      }
    }
  }
}

std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> found;
  for (int64_t radix : {4, 2, 3, 5})
    for (; n % radix == 0; n /= radix) found.push_back(radix);
  for (int64_t prime = 7; n > 1; prime += 2) {
    if (prime * prime > n) prime = n;
    for (; n % prime == 0; n /= prime) found.push_back(prime);
  }
  return found;
}

constexpr double kTwoPi = 6.283185307179586476925286766559;

}  // namespace

FourierTransform::FourierTransform(int64_t n) : n_(n) {
  int64_t length = n, stride = 1;
  for (const int64_t radix : radices_of(n)) {
    length /= radix;
    steps_.push_back({radix, length, stride, 0, 0});
    most_ = std::max(most_, 2 * radix);
    stride *= radix;
  }
}

void FourierTransform::fill_factors() {
  for (Step& step : steps_) {
    const int64_t radix = step.radix, length = step.parts * radix;
    step.twiddles = factors_.size();
    for (int64_t p = 0; p < step.parts; ++p)
      for (int64_t j = 1; j < radix; ++j) {
        const double angle = -kTwoPi * double(p * j % length) / double(length);
        factors_.push_back(float(std::cos(angle)));
        factors_.push_back(float(std::sin(angle)));
      }
    step.roots = factors_.size();
    for (int64_t k = 0; k < radix; ++k) factors_.push_back(float(std::cos(kTwoPi * double(k) / double(radix))));
    for (int64_t k = 0; k < radix; ++k) factors_.push_back(float(std::sin(kTwoPi * double(k) / double(radix))));
  }
}

float* FourierTransform::run(float* a, float* b, float* scratch) const {
  Complex *x = reinterpret_cast<Complex*>(a), *y = reinterpret_cast<Complex*>(b);
  for (const Step& own : steps_) {
    const StepOf step{own.parts, own.stride, factors_.data() + own.twiddles, factors_.data() + own.roots};
    switch (own.radix) {
      case 2: step2(step, x, y); break;
      case 3: step3(step, x, y); break;
      case 4: step4(step, x, y); break;
      case 5: step5(step, x, y); break;
      default: step_of_prime(step, own.radix, x, y, reinterpret_cast<Complex*>(scratch));
    }
    std::swap(x, y);
  }
  return reinterpret_cast<float*>(x);
}

}  // namespace pl::host
