#include "providers/host/pointwise/native_unary.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"
#include "providers/host/pointwise/functions.h"

namespace pl::host {
namespace {

// Of elements of T, by pointers to them or to void.
template <class F, class T, class From, class To>
PL_VECTORISED void run_integers(const From* from, To* to, int64_t n, double alpha, double beta) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  using Limits = std::numeric_limits<T>;
  const T low = T(std::max(integer_limit(alpha, true), int64_t(Limits::min())));
  const T high = T(std::min(integer_limit(beta, false), int64_t(Limits::max())));
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = F::of(x[i], low, high);
}

template <class T>
PL_VECTORISED void run_logical_not(const void* from, void* to, int64_t n, double, double) {
  const T* x = static_cast<const T*>(from);
  uint8_t* y = static_cast<uint8_t*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] == 0;
}

// Arithmetic wraps around.
#define PL_NATIVE(Name, expression)                                               \
  struct Name {                                                                   \
    template <class T>                                                            \
    static PL_INLINE T of(T x, [[maybe_unused]] T low, [[maybe_unused]] T high) { \
      using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;           \
      [[maybe_unused]] const auto bits = U(x);                                    \
      return T(expression);                                                       \
    }                                                                             \
  };
PL_NATIVE(NativeIdentity, x)
PL_NATIVE(NativeRelu, x > T(0) ? x : T(0))
PL_NATIVE(NativeRelu6, x > T(0) ? (x < T(6) ? x : T(6)) : T(0))
PL_NATIVE(NativeAbs, x < T(0) ? U(0) - bits : bits)
PL_NATIVE(NativeNeg, U(0) - bits)
PL_NATIVE(NativeSquare, bits* bits)
PL_NATIVE(NativeSign, int(x > T(0)) - int(x < T(0)))
PL_NATIVE(NativeNot, ~bits)
PL_NATIVE(NativeLogicalNot, x == T(0))
PL_NATIVE(NativeClip, (x < low ? low : x) > high ? high : (x < low ? low : x))
#undef PL_NATIVE

// Whether no value of the dtype becomes one that it has not.
template <class T>
bool keeps_dtype(double alpha, double beta) {
  return integer_limit(alpha, true) <= int64_t(std::numeric_limits<T>::max()) &&
         integer_limit(beta, false) >= int64_t(std::numeric_limits<T>::min());
}

// Run: NativeRun or UnaryRun<T>.
template <class T, class Run>
Run find_integers(std::string_view name) {
  if (name == "relu") return run_integers<NativeRelu, T>;
  if (name == "relu6") return run_integers<NativeRelu6, T>;
  if (name == "clip") return run_integers<NativeClip, T>;
  if (name == "abs") return run_integers<NativeAbs, T>;
  if (name == "neg") return run_integers<NativeNeg, T>;
  if (name == "square") return run_integers<NativeSquare, T>;
  if (name == "sign") return run_integers<NativeSign, T>;
  if (name == "bitwise_not") return run_integers<NativeNot, T>;
  if (name == "logical_not") return run_integers<NativeLogicalNot, T>;
  if (name == "floor" || name == "ceil" || name == "round" || name == "trunc" || name == "identity")
    return run_integers<NativeIdentity, T>;
  return nullptr;
}

template <class T>
NativeRun native_of_integers(std::string_view name, double alpha, double beta) {
  if (name == "clip" && !keeps_dtype<T>(alpha, beta)) return nullptr;
  return find_integers<T, NativeRun>(name);
}

}  // namespace

UnaryRun<int64_t> find_integer_unary(std::string_view name) { return find_integers<int64_t, UnaryRun<int64_t>>(name); }

NativeRun find_native_unary(std::string_view name, DType from, DType to, double alpha, double beta) {
  const bool negates = name == "logical_not" && to == DType::boolean;
  if (!negates && to != from) return nullptr;
  switch (from) {
    case DType::s8: return negates ? run_logical_not<int8_t> : native_of_integers<int8_t>(name, alpha, beta);
    case DType::u8: return negates ? run_logical_not<uint8_t> : native_of_integers<uint8_t>(name, alpha, beta);
    case DType::s32: return negates ? run_logical_not<int32_t> : native_of_integers<int32_t>(name, alpha, beta);
    case DType::s64: return negates ? run_logical_not<int64_t> : native_of_integers<int64_t>(name, alpha, beta);
    case DType::boolean: return negates ? run_logical_not<uint8_t> : nullptr;
    default: return nullptr;
  }
}

}  // namespace pl::host
