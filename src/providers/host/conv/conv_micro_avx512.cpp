// conv_micro.h for x86-64-v4: 32 registers of 16 floats: 24 sums, the filters and what the compiler needs.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "providers/host/conv/conv_kernels.h"

// Clang has another pragma for this; there the baseline serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx2,fma,bmi,bmi2")
#define PL_CONV_ISA "avx512"
#define PL_CONV_NAMESPACE avx512
#define PL_CONV_WIDTH 16
#define PL_CONV_MASKS 512
#define PL_CONV_GROUPS 1
#define PL_CONV_TILES \
  4, {0, 16, 12, 8, 6}, 8, { 0, 8, 8, 6, 6 }
#include "providers/host/conv/conv_micro.h"

namespace pl::host {
const ConvKernels* conv_kernels_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma")
             ? &avx512::kKernels
             : nullptr;
}
}  // namespace pl::host
#else
namespace pl::host {
const ConvKernels* conv_kernels_avx512() { return nullptr; }
}  // namespace pl::host
#endif
