// Functions of two arguments, on floats and on 64-bit integers.
#include <algorithm>
#include <cmath>

#include "providers/host/pointwise/binary_run.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/vector_power.h"
#include "providers/host/pointwise/vector_trigonometry.h"

namespace pl::host {
namespace {

#define PL_FUNCTION(Name, Type, expression)                         \
  struct Name {                                                     \
    static PL_INLINE Type of(Type a, Type b) { return expression; } \
  };

PL_FUNCTION(Add, float, a + b)
PL_FUNCTION(Sub, float, a - b)
PL_FUNCTION(Mul, float, a* b)
PL_FUNCTION(Div, float, a / b)
PL_FUNCTION(Maximum, float, math::maximum(a, b))
PL_FUNCTION(Minimum, float, math::minimum(a, b))
PL_FUNCTION(Eq, float, a == b ? 1.0f : 0.0f)
PL_FUNCTION(Ne, float, a != b ? 1.0f : 0.0f)
PL_FUNCTION(Lt, float, a < b ? 1.0f : 0.0f)
PL_FUNCTION(Le, float, a <= b ? 1.0f : 0.0f)
PL_FUNCTION(Gt, float, a > b ? 1.0f : 0.0f)
PL_FUNCTION(Ge, float, a >= b ? 1.0f : 0.0f)
PL_FUNCTION(And, float, (a != 0.0f ? 1.0f : 0.0f) * (b != 0.0f ? 1.0f : 0.0f))
PL_FUNCTION(Or, float, (a != 0.0f) ? 1.0f : (b != 0.0f ? 1.0f : 0.0f))

PL_FUNCTION(Xor, float, (a != 0.0f ? 1.0f : 0.0f) != (b != 0.0f ? 1.0f : 0.0f) ? 1.0f : 0.0f)
PL_FUNCTION(DivTrunc, float, __builtin_truncf(a / b))
PL_FUNCTION(Pow, float, math::pow(a, b))
PL_FUNCTION(Atan2, float, math::atan2(a, b))
PL_FUNCTION(Copysign, float, math::copy_sign(a, b))

PL_FUNCTION(IntegerAdd, int64_t, int64_t(uint64_t(a) + uint64_t(b)))
PL_FUNCTION(IntegerSub, int64_t, int64_t(uint64_t(a) - uint64_t(b)))
PL_FUNCTION(IntegerMul, int64_t, int64_t(uint64_t(a) * uint64_t(b)))
// Neither a divisor of zero nor the one overflow may trap.
PL_FUNCTION(IntegerDiv, int64_t, b == 0 ? 0 : (b == -1 ? int64_t(0 - uint64_t(a)) : a / b))
// Where the truncated division leaves a remainder of another sign than the divisor's, the floor lies one below.
PL_INLINE int64_t truncated_remainder(int64_t a, int64_t b) { return b == 0 ? a : (b == -1 ? 0 : a % b); }
PL_INLINE bool floor_differs(int64_t remainder, int64_t b) {
  return b != 0 && remainder != 0 && (remainder < 0) != (b < 0);
}
PL_FUNCTION(IntegerDivFloor, int64_t, IntegerDiv::of(a, b) - floor_differs(truncated_remainder(a, b), b))
PL_FUNCTION(IntegerFmod, int64_t, truncated_remainder(a, b))
PL_FUNCTION(IntegerRemainder, int64_t,
            truncated_remainder(a, b) + (floor_differs(truncated_remainder(a, b), b) ? b : 0))
PL_FUNCTION(IntegerXor, int64_t, (a != 0) != (b != 0))
PL_FUNCTION(IntegerMaximum, int64_t, a < b ? b : a)
PL_FUNCTION(IntegerMinimum, int64_t, a > b ? b : a)
PL_FUNCTION(IntegerEq, int64_t, a == b)
PL_FUNCTION(IntegerNe, int64_t, a != b)
PL_FUNCTION(IntegerLt, int64_t, a < b)
PL_FUNCTION(IntegerLe, int64_t, a <= b)
PL_FUNCTION(IntegerGt, int64_t, a > b)
PL_FUNCTION(IntegerGe, int64_t, a >= b)
PL_FUNCTION(IntegerAnd, int64_t, (a != 0) & (b != 0))
PL_FUNCTION(IntegerOr, int64_t, (a != 0) | (b != 0))
PL_FUNCTION(BitAnd, int64_t, a& b)
PL_FUNCTION(BitOr, int64_t, a | b)
PL_FUNCTION(BitXor, int64_t, a ^ b)
// Narrower integers come with their sign, or with zeros, in all bits above: what these shift is right in their bits,
// too.  A count that is negative or above 63 shifts all bits out.
PL_FUNCTION(LeftShift, int64_t, uint64_t(b) > 63 ? 0 : int64_t(uint64_t(a) << (b & 63)))
PL_FUNCTION(RightShift, int64_t, a >> (uint64_t(b) > 63 ? 63 : b))
#undef PL_FUNCTION

// As gelu_tanh has them.
PL_VECTORISED void cubes(const float* a, int64_t a_step, float* out, int64_t n) {
  const float base = *a;
  if (a_step == 0) return void(std::fill_n(out, n, base * base * base));
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * a[i] * a[i];
}

// base^y = 2^(y log2 base) for 0 < base < infinity, of which there is one logarithm.
PL_VECTORISED void powers_of(double logarithm, const float* y, float* out, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = math::exp2_of_product(y[i], logarithm);
}

// The constant exponents that models use take a multiplication or two.
void run_pow(const float* a, int64_t a_step, const float* b, int64_t b_step, float* out, int64_t n) {
  const float exponent = *b;
  if (b_step == 0 && exponent == 2.0f) return run_binary<Mul>(a, a_step, a, a_step, out, n);
  if (b_step == 0 && exponent == 1.0f) {
    const float one = 1.0f;
    return run_binary<Mul>(a, a_step, &one, 0, out, n);
  }
  if (b_step == 0 && exponent == -1.0f) {
    const float one = 1.0f;
    return run_binary<Div>(&one, 0, a, a_step, out, n);
  }
  if (b_step == 0 && exponent == 3.0f) return cubes(a, a_step, out, n);
  // To the power of infinity 1 is 1, which the product does not know.
  if (a_step == 0 && b_step && *a > 0.0f && *a < math::kInfinity && *a != 1.0f)
    return powers_of(math::log2_of_positive(*a), b, out, n);
  run_binary<Pow>(a, a_step, b, b_step, out, n);
}

// Remainders of divisions, without rounding.  Below 2^23 the rounded quotient, truncated, is the exact one or one more,
// and the remainder of either is a float; the product is exact in double, and so is the difference.  NaN, a divisor of
// zero and larger quotients are left to the C library.
constexpr float kQuotientLimit = 8388608.0f;
PL_INLINE float near_fmod(float a, float b, float quotient) {
  const float q = __builtin_truncf(quotient);
  float r = float(double(a) - double(q) * double(b));
  r = q == 0.0f ? a : r;  // of an infinite divisor, too
  r = r != 0.0f && (r < 0.0f) != (a < 0.0f) ? r + math::copy_sign(b, a) : r;
  return math::copy_sign(r, a);
}
// What the functions make of the exact remainder r of the division.
struct Fmod {
  static PL_INLINE float of(float, float, float, float r) { return r; }
};
struct Remainder {
  static PL_INLINE float of(float, float b, float, float r) {
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
  }
};
// The floor of the exact quotient, which a / b may have been rounded up from.
struct DivFloor {
  static PL_INLINE float of(float a, float b, float quotient, float r) {
    float whole = (a - r) / b;
    whole = r != 0.0f && (r < 0.0f) != (b < 0.0f) ? whole - 1.0f : whole;
    const float truncated = __builtin_truncf(whole);
    const float rounded = math::abs(whole - truncated) >= 0.5f ? truncated + math::copy_sign(1.0f, whole) : truncated;
    return b == 0.0f ? quotient : whole == 0.0f ? math::copy_sign(0.0f, quotient) : rounded;
  }
};

template <class F>
PL_VECTORISED void run_remainder(const float* a, int64_t a_step, const float* b, int64_t b_step, float* out,
                                 int64_t n) {
  constexpr int64_t kBlock = 128;
  float first[kBlock], second[kBlock], values[kBlock];  // out may be a or b
  if (a_step == 0) std::fill(first, first + std::min(kBlock, n), *a);
  if (b_step == 0) std::fill(second, second + std::min(kBlock, n), *b);
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t count = std::min(kBlock, n - start);
    const float* const x = a_step ? a + start : first;
    const float* const y = b_step ? b + start : second;
    uint32_t far = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float quotient = x[i] / y[i];
      far |= math::abs(quotient) < kQuotientLimit ? 0u : 1u;
      values[i] = F::of(x[i], y[i], quotient, near_fmod(x[i], y[i], quotient));
    }
    if (far)
      for (int64_t i = 0; i < count; ++i) {
        const float quotient = x[i] / y[i];
        if (math::abs(quotient) < kQuotientLimit) continue;
        values[i] = F::of(x[i], y[i], quotient, std::fmod(x[i], y[i]));
      }
    std::copy(values, values + count, out + start);
  }
}

// One element at a time.
template <class T, T (*Function)(T, T)>
void run_each(const T* a, int64_t a_step, const T* b, int64_t b_step, T* out, int64_t n) {
  const T first_a = *a, first_b = *b;  // out may be a or b: what is broadcast is read once
  for (int64_t i = 0; i < n; ++i) out[i] = Function(a_step ? a[i] : first_a, b_step ? b[i] : first_b);
}
int64_t exact_pow(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, square = uint64_t(base);
  for (; exponent; exponent /= 2, square *= square)
    if (exponent % 2) result *= square;
  return int64_t(result);
}

template <class T>
struct NamedBinary {
  const char* name;
  BinaryRun<T> run;
};

constexpr NamedBinary<float> kFloat[] = {
    {"add", run_binary<Add>},
    {"sub", run_binary<Sub>},
    {"mul", run_binary<Mul>},
    {"div", run_binary<Div>},
    {"maximum", run_binary<Maximum>},
    {"minimum", run_binary<Minimum>},
    {"pow", run_pow},
    {"eq", run_binary<Eq>},
    {"ne", run_binary<Ne>},
    {"lt", run_binary<Lt>},
    {"le", run_binary<Le>},
    {"gt", run_binary<Gt>},
    {"ge", run_binary<Ge>},
    {"logical_and", run_binary<And>},
    {"logical_or", run_binary<Or>},
    {"logical_xor", run_binary<Xor>},
    {"div_trunc", run_binary<DivTrunc>},
    {"div_floor", run_remainder<DivFloor>},
    {"fmod", run_remainder<Fmod>},
    {"remainder", run_remainder<Remainder>},
    {"atan2", run_binary<Atan2>},
    {"copysign", run_binary<Copysign>},
};

constexpr NamedBinary<int64_t> kInteger[] = {
    {"add", run_binary<IntegerAdd>},
    {"sub", run_binary<IntegerSub>},
    {"mul", run_binary<IntegerMul>},
    {"div", run_binary<IntegerDiv>},
    {"maximum", run_binary<IntegerMaximum>},
    {"minimum", run_binary<IntegerMinimum>},
    {"eq", run_binary<IntegerEq>},
    {"ne", run_binary<IntegerNe>},
    {"lt", run_binary<IntegerLt>},
    {"le", run_binary<IntegerLe>},
    {"gt", run_binary<IntegerGt>},
    {"ge", run_binary<IntegerGe>},
    {"logical_and", run_binary<IntegerAnd>},
    {"logical_or", run_binary<IntegerOr>},
    {"logical_xor", run_binary<IntegerXor>},
    {"bitwise_and", run_binary<BitAnd>},
    {"bitwise_or", run_binary<BitOr>},
    {"bitwise_xor", run_binary<BitXor>},
    {"bitwise_left_shift", run_binary<LeftShift>},
    {"bitwise_right_shift", run_binary<RightShift>},
    {"div_trunc", run_binary<IntegerDiv>},
    {"div_floor", run_binary<IntegerDivFloor>},
    {"fmod", run_binary<IntegerFmod>},
    {"remainder", run_binary<IntegerRemainder>},
    {"pow", run_each<int64_t, exact_pow>},
};

template <class T, size_t N>
BinaryRun<T> find(const NamedBinary<T> (&table)[N], std::string_view name) {
  for (const NamedBinary<T>& function : table)
    if (name == function.name) return function.run;
  return nullptr;
}

}  // namespace

BinaryRun<float> find_float_binary(std::string_view name) { return find(kFloat, name); }
BinaryRun<int64_t> find_integer_binary(std::string_view name) { return find(kInteger, name); }

}  // namespace pl::host
