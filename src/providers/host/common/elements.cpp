#include "providers/host/common/elements.h"

namespace pl::host {
namespace {

template <class To, class From>
PL_VECTORISED void convert_contiguous(const From* __restrict source, To* __restrict target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = convert<To>(source[i]);
}

template <class To, class From>
void convert_run(const void* source, int64_t source_offset, int64_t source_stride, void* target, int64_t target_offset,
                 int64_t target_stride, int64_t n) {
  const From* from = static_cast<const From*>(source) + source_offset;
  To* to = static_cast<To*>(target) + target_offset;
  if (source_stride == 1 && target_stride == 1) {
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(to, from, size_t(n) * sizeof(To));
    } else {
      convert_contiguous(from, to, n);
    }
    return;
  }
  if (source_stride == 0) {
    const To value = convert<To>(*from);
    for (int64_t i = 0; i < n; ++i) to[i * target_stride] = value;
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * target_stride] = convert<To>(from[i * source_stride]);
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
  T* to = static_cast<T*>(base) + offset;
  if constexpr (is_float_storage<T> || std::is_same_v<T, Boolean>) {
    for (int64_t i = 0; i < n; ++i) to[i * stride] = convert<T>(values[i]);
  } else if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = T(uint64_t(values[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * stride] = T(uint64_t(values[i]));
  }
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

}  // namespace pl::host
