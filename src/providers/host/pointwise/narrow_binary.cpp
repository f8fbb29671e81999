#include "providers/host/pointwise/narrow_binary.h"

#include "providers/host/pointwise/binary_run.h"

namespace pl::host {
namespace {

template <class F, class T>
void run_narrow(const void* a, int64_t a_step, const void* b, int64_t b_step, void* out, int64_t n) {
  run_binary<F>(static_cast<const T*>(a), a_step, static_cast<const T*>(b), b_step, static_cast<T*>(out), n);
}

// Arithmetic wraps around: in 32 bits, of which the lower ones are right.
#define PL_NARROW(Name, expression)                \
  struct Name {                                    \
    template <class T>                             \
    static PL_INLINE T of(T a, T b) {              \
      const auto x = uint32_t(a), y = uint32_t(b); \
      (void)x, (void)y;                            \
      return T(expression);                        \
    }                                              \
  };
PL_NARROW(NarrowAdd, x + y)
PL_NARROW(NarrowSub, x - y)
PL_NARROW(NarrowMul, x* y)
PL_NARROW(NarrowMaximum, a < b ? b : a)
PL_NARROW(NarrowMinimum, a < b ? a : b)
PL_NARROW(NarrowAnd, x& y)
PL_NARROW(NarrowOr, x | y)
PL_NARROW(NarrowXor, x ^ y)
#undef PL_NARROW

template <class T>
NarrowRun of_integers(std::string_view name) {
  if (name == "add") return run_narrow<NarrowAdd, T>;
  if (name == "sub") return run_narrow<NarrowSub, T>;
  if (name == "mul") return run_narrow<NarrowMul, T>;
  if (name == "maximum") return run_narrow<NarrowMaximum, T>;
  if (name == "minimum") return run_narrow<NarrowMinimum, T>;
  if (name == "bitwise_and") return run_narrow<NarrowAnd, T>;
  if (name == "bitwise_or") return run_narrow<NarrowOr, T>;
  if (name == "bitwise_xor") return run_narrow<NarrowXor, T>;
  return nullptr;
}

// Elements are 0 or 1.
NarrowRun of_truth(std::string_view name) {
  if (name == "logical_and" || name == "bitwise_and" || name == "minimum") return run_narrow<NarrowAnd, uint8_t>;
  if (name == "logical_or" || name == "bitwise_or" || name == "maximum") return run_narrow<NarrowOr, uint8_t>;
  if (name == "logical_xor" || name == "bitwise_xor") return run_narrow<NarrowXor, uint8_t>;
  return nullptr;
}

}  // namespace

NarrowRun find_narrow_binary(std::string_view name, DType dtype) {
  switch (dtype) {
    case DType::s8: return of_integers<int8_t>(name);
    case DType::u8: return of_integers<uint8_t>(name);
    case DType::s32: return of_integers<int32_t>(name);
    case DType::boolean: return of_truth(name);
    default: return nullptr;
  }
}

}  // namespace pl::host
