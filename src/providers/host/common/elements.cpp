#include "providers/host/common/elements.h"

#include <algorithm>

#include "providers/host/common/halves.h"

namespace pl::host {
namespace {

// Conversions round, and saturate where a number does not fit; casts cut fractions, and integers wrap around.
// Of floats that do not fit, an unlimited cast makes the least integer of 64 bits, or of 32 where the target has at most
// those.
enum class As { conversion, cast, unlimited_cast };

template <class To>
PL_INLINE To cut_or_least(float x) {
  using Wide = std::conditional_t<sizeof(To) == 8, int64_t, int32_t>;
  constexpr float bound = sizeof(To) == 8 ? 9223372036854775808.0f : 2147483648.0f;
  const bool fits = __builtin_fabsf(x) < bound;  // the least integer itself comes out alike
  const Wide cut = Wide(fits ? x : 0.0f);
  return To(fits ? cut : std::numeric_limits<Wide>::min());
}

template <As kAs, class To, class From>
PL_INLINE To converted(From x) {
  if constexpr (kAs == As::conversion || !std::is_integral_v<To>)
    return convert<To>(x);
  else if constexpr (kAs == As::unlimited_cast && is_float_storage<From>)
    return cut_or_least<To>(value_of(x));
  else if constexpr (std::is_same_v<From, double>)
    return from_value<To>(__builtin_trunc(x));
  else if constexpr (is_float_storage<From>)
    return from_value<To>(__builtin_truncf(value_of(x)));
  else
    return To(uint64_t(int64_t(value_of(x))));
}

template <As kAs, class To, class From>
PL_VECTORISED void convert_side_by_side(const From* __restrict source, To* __restrict target, int64_t n) {
  if constexpr (std::is_same_v<To, Boolean>) {  // of bytes, not of structures, the compiler makes vectors
    auto* bytes = reinterpret_cast<uint8_t*>(target);
    for (int64_t i = 0; i < n; ++i) bytes[i] = value_of(source[i]) != 0;
  } else {
    for (int64_t i = 0; i < n; ++i) target[i] = converted<kAs, To>(source[i]);
  }
}

// Of other dtypes halves are made, and become these, by way of floats: the compiler makes no vectors of three widths at
// once, and between halves and floats there are instructions.
template <As kAs, class To, class From>
void convert_contiguous(const From* source, To* target, int64_t n) {
  constexpr bool to_half = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
    widen_run(source, target, n);
  } else if constexpr (std::is_same_v<From, float> && to_half) {
    narrow_run(source, target, n);
  } else if constexpr (std::is_same_v<From, Half> || to_half) {
    float values[kChunk];
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t count = std::min(kChunk, n - i);
      convert_contiguous<kAs>(source + i, values, count);
      convert_contiguous<kAs>(values, target + i, count);
    }
  } else {
    convert_side_by_side<kAs>(source, target, n);
  }
}

template <class To, class From, As kAs = As::conversion>
void convert_run(const void* source, int64_t source_offset, int64_t source_stride, void* target, int64_t target_offset,
                 int64_t target_stride, int64_t n) {
  const From* from = static_cast<const From*>(source) + source_offset;
  To* to = static_cast<To*>(target) + target_offset;
  if (source_stride == 1 && target_stride == 1) {
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(to, from, size_t(n) * sizeof(To));
    } else {
      convert_contiguous<kAs>(from, to, n);
    }
    return;
  }
  if (source_stride == 0) {
    const To value = converted<kAs, To>(*from);
    for (int64_t i = 0; i < n; ++i) to[i * target_stride] = value;
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * target_stride] = converted<kAs, To>(from[i * source_stride]);
}

template <class C, class T>
void load_run(const void* base, int64_t offset, int64_t stride, int64_t n, C* out) {
  convert_run<C, T>(base, offset, stride, out, 0, 1, n);
}
template <class C, class T>
void store_run(const C* values, int64_t n, void* base, int64_t offset, int64_t stride) {
  convert_run<T, C>(values, 0, 1, base, offset, stride, n);
}

// Keeps the low bits, as integer arithmetic in the narrow type would.
template <class T>
void store_wrapped(const int64_t* values, int64_t n, void* base, int64_t offset, int64_t stride) {
  convert_run<T, int64_t, As::cast>(values, 0, 1, base, offset, stride, n);
}

}  // namespace

LoadRun<float> float_loader(DType dtype) {
  return visit_dtype(dtype, [](auto t) -> LoadRun<float> { return load_run<float, typename decltype(t)::type>; });
}
LoadRun<double> double_loader(DType dtype) {
  return visit_dtype(dtype, [](auto t) -> LoadRun<double> { return load_run<double, typename decltype(t)::type>; });
}
LoadRun<int64_t> integer_loader(DType dtype) {
  return visit_dtype(dtype, [](auto t) -> LoadRun<int64_t> { return load_run<int64_t, typename decltype(t)::type>; });
}
StoreRun<float> float_storer(DType dtype) {
  return visit_dtype(dtype, [](auto t) -> StoreRun<float> { return store_run<float, typename decltype(t)::type>; });
}
StoreRun<double> double_storer(DType dtype) {
  return visit_dtype(dtype, [](auto t) -> StoreRun<double> { return store_run<double, typename decltype(t)::type>; });
}
StoreRun<int64_t> integer_storer(DType dtype) {
  return visit_dtype(dtype, [](auto t) -> StoreRun<int64_t> { return store_wrapped<typename decltype(t)::type>; });
}

ConvertRun converter(DType from, DType to) {
  return visit_dtype(from, [to](auto f) {
    return visit_dtype(
        to, [](auto t) -> ConvertRun { return convert_run<typename decltype(t)::type, typename decltype(f)::type>; });
  });
}

ConvertRun caster(DType from, DType to) {
  return visit_dtype(from, [to](auto f) {
    return visit_dtype(to, [](auto t) -> ConvertRun {
      return convert_run<typename decltype(t)::type, typename decltype(f)::type, As::cast>;
    });
  });
}

ConvertRun unlimited_caster(DType from, DType to) {
  return visit_dtype(from, [from, to](auto f) {
    return visit_dtype(to, [from, to](auto t) -> ConvertRun {
      using From = typename decltype(f)::type;
      using To = typename decltype(t)::type;
      if constexpr (is_float_storage<From> && std::is_integral_v<To>) return convert_run<To, From, As::unlimited_cast>;
      return caster(from, to);
    });
  });
}

}  // namespace pl::host
