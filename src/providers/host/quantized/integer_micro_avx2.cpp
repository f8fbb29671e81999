// integer_micro.h for x86-64-v3: 16 registers of 8 sums.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "providers/host/quantized/integer_kernels.h"

// Clang has another pragma for this; there the reference serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2,fma,bmi,bmi2")
#define PL_INTEGER_ISA "avx2"
#define PL_INTEGER_NAMESPACE integer_avx2
#define PL_INTEGER_BITS 256
#define PL_INTEGER_DOTS 0
#define PL_INTEGER_PIXELS 4
#define PL_INTEGER_WIDE_PIXELS 6
#include "providers/host/quantized/integer_micro.h"

namespace pl::host {
const IntegerKernels* integer_kernels_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")
             ? &integer_avx2::kIntegerKernels
             : nullptr;
}
}  // namespace pl::host
#else
namespace pl::host {
const IntegerKernels* integer_kernels_avx2() { return nullptr; }
}  // namespace pl::host
#endif
