// Elements of every dtype: storage types, conversions, and runs of them loaded as float, double or int64.
//
// Conversions: float to float rounds to nearest even; float to integer rounds to nearest even and saturates, NaN
// gives 0; integer to integer saturates; anything to bool is `!= 0`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/dtype.h"
#include "core/status.h"
#include "providers/host/common/simd.h"

namespace pl::host {

// Storage types that have no arithmetic of their own.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Boolean {
  uint8_t value;
};

template <class T>
struct Type {
  using type = T;
};

// Calls f(Type<T>{}) with the storage type of `dtype`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(Type<float>{});
    case DType::f16: return f(Type<Half>{});
    case DType::bf16: return f(Type<BFloat16>{});
    case DType::s8: return f(Type<int8_t>{});
    case DType::u8: return f(Type<uint8_t>{});
    case DType::s32: return f(Type<int32_t>{});
    case DType::s64: return f(Type<int64_t>{});
    case DType::boolean: return f(Type<Boolean>{});
  }
  fail(Code::internal, "dtype ", int(dtype), " does not exist");
}

// Branch-free versions of the conversions in core/dtype.h.
PL_INLINE float widen(Half half) {
  const uint32_t sign = uint32_t(half.bits & 0x8000u) << 16;
  const uint32_t rest = uint32_t(half.bits & 0x7fffu);
  // Normal: rebias the exponent by 112.  Subnormal: the mantissa in units of 2^-24.
  const uint32_t normal = (rest << 13) + 0x38000000u;
  const float small = float(int32_t(rest)) * 5.9604644775390625e-8f;
  uint32_t small_bits;
  std::memcpy(&small_bits, &small, 4);
  uint32_t bits = rest >= 0x7c00u ? normal + 0x38000000u : normal;
  bits = (rest < 0x0400u ? small_bits : bits) | sign;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
PL_INLINE float widen(BFloat16 value) {
  const uint32_t bits = uint32_t(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}
PL_INLINE Half narrow_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  bits &= 0x7fffffffu;
  float magnitude;
  std::memcpy(&magnitude, &bits, 4);
  const float shifted = magnitude + 0.5f;  // rounds to units of 2^-24
  uint32_t small;
  std::memcpy(&small, &shifted, 4);
  uint32_t result = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
  result = bits < 0x38800000u ? small - 0x3f000000u : result;
  result = bits >= 0x477ff000u ? 0x7c00u : result;
  result = bits > 0x7f800000u ? 0x7e00u : result;
  return {uint16_t(result | sign)};
}
PL_INLINE BFloat16 narrow_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return {uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

template <class T>
constexpr bool is_float_storage =
    std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, double>;

// What arithmetic sees of a stored element: float for floating ones, else the integer.
PL_INLINE float value_of(float x) { return x; }
PL_INLINE double value_of(double x) { return x; }
PL_INLINE float value_of(Half x) { return widen(x); }
PL_INLINE float value_of(BFloat16 x) { return widen(x); }
PL_INLINE int8_t value_of(int8_t x) { return x; }
PL_INLINE uint8_t value_of(uint8_t x) { return x; }
PL_INLINE int32_t value_of(int32_t x) { return x; }
PL_INLINE int64_t value_of(int64_t x) { return x; }
PL_INLINE uint8_t value_of(Boolean x) { return x.value; }

template <class To, class From>
PL_INLINE To from_value(From x) {
  constexpr bool real = std::is_floating_point_v<From>;
  if constexpr (std::is_same_v<To, float> || std::is_same_v<To, double>) {
    return To(x);
  } else if constexpr (std::is_same_v<To, Half>) {
    return narrow_half(float(x));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return narrow_bfloat16(float(x));
  } else if constexpr (std::is_same_v<To, Boolean>) {
    return {uint8_t(x != From(0))};
  } else if constexpr (real) {
    using Limits = std::numeric_limits<To>;
    if constexpr (sizeof(To) == 1) {
      const From low = From(Limits::min()), high = From(Limits::max());
      From y = x < low ? low : x;
      y = y > high ? high : y;
      y = y != y ? From(0) : y;
      return To(int32_t(std::is_same_v<From, float> ? __builtin_rintf(float(y)) : From(__builtin_rint(double(y)))));
    } else {
      // From the bound on the conversion would be undefined; both bounds are powers of two, exact in From.
      const From bound = sizeof(To) == 4 ? From(2147483648.0) : From(9223372036854775808.0);
      const bool inside = x >= -bound && x < bound;
      const From safe = inside ? x : From(0);
      const From rounded =
          std::is_same_v<From, float> ? From(__builtin_rintf(float(safe))) : From(__builtin_rint(double(safe)));
      // Rounding up may reach the bound (in double, for 32 bits).
      if constexpr (std::is_same_v<From, double> && sizeof(To) == 4)
        if (rounded >= bound) return Limits::max();
      return inside ? To(rounded) : (x > From(0) ? Limits::max() : (x < From(0) ? Limits::min() : To(0)));
    }
  } else {
    using Limits = std::numeric_limits<To>;
    const int64_t wide = int64_t(x);
    if constexpr (sizeof(To) == 8) return wide;
    const int64_t low = int64_t(Limits::min()), high = int64_t(Limits::max());
    return To(wide < low ? low : (wide > high ? high : wide));
  }
}

template <class To, class From>
PL_INLINE To convert(From x) {
  return from_value<To>(value_of(x));
}

// ---- runs of elements

// Elements that arithmetic of elementwise kernels is done on at a time: the buffers stay in the first cache.
constexpr int64_t kChunk = 512;

// Loads n elements, `stride` apart (0: the same one n times), starting at element `offset` of `base`.
template <class C>
using LoadRun = void (*)(const void* base, int64_t offset, int64_t stride, int64_t n, C* out);
// Stores n values, `stride` apart, converted to the dtype.
template <class C>
using StoreRun = void (*)(const C* values, int64_t n, void* base, int64_t offset, int64_t stride);

LoadRun<float> float_loader(DType dtype);
LoadRun<double> double_loader(DType dtype);
LoadRun<int64_t> integer_loader(DType dtype);
StoreRun<float> float_storer(DType dtype);
StoreRun<double> double_storer(DType dtype);
StoreRun<int64_t> integer_storer(DType dtype);  // integers wrap around; to floating dtypes as a conversion

// Converts n elements from one dtype to another; the strides are in elements.
using ConvertRun = void (*)(const void* source, int64_t source_offset, int64_t source_stride, void* target,
                            int64_t target_offset, int64_t target_stride, int64_t n);
ConvertRun converter(DType from, DType to);
ConvertRun caster(DType from, DType to);  // the same, but fractions are cut, and integers wrap around
// caster(), but floats that an integer cannot hold, and NaN, become the least s64 where that is the target, or the least
// s32, of which s8 and u8 are the low bits.
ConvertRun unlimited_caster(DType from, DType to);

inline char* at(void* base, int64_t element, size_t size) { return static_cast<char*>(base) + element * int64_t(size); }
inline const char* at(const void* base, int64_t element, size_t size) {
  return static_cast<const char*>(base) + element * int64_t(size);
}

}  // namespace pl::host
