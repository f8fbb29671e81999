// integer_micro.h for x86-64-v4: 32 registers of 16 sums.
#if defined(__x86_64__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of GCC 12's intrinsics without masks
#include <immintrin.h>
#endif

#include "providers/host/quantized/integer_kernels.h"

// Clang has another pragma for this; there the reference serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx2,fma,bmi,bmi2")
#define PL_INTEGER_ISA "avx512"
#define PL_INTEGER_NAMESPACE integer_avx512
#define PL_INTEGER_BITS 512
#define PL_INTEGER_DOTS 0
#define PL_INTEGER_PIXELS 8
#define PL_INTEGER_WIDE_PIXELS 8
#include "providers/host/quantized/integer_micro.h"

namespace pl::host {
const IntegerKernels* integer_kernels_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma")
             ? &integer_avx512::kIntegerKernels
             : nullptr;
}
}  // namespace pl::host
#else
namespace pl::host {
const IntegerKernels* integer_kernels_avx512() { return nullptr; }
}  // namespace pl::host
#endif
