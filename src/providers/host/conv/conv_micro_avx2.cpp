// conv_micro.h for x86-64-v3: 16 registers of 8 floats: up to 12 sums.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "providers/host/conv/conv_kernels.h"

// Clang has another pragma for this; there the baseline serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2,fma,bmi,bmi2")
#define PL_CONV_ISA "avx2"
#define PL_CONV_NAMESPACE avx2
#define PL_CONV_WIDTH 8
#define PL_CONV_MASKS 256
#define PL_CONV_GROUPS 1
#define PL_CONV_TILES \
  2, {0, 8, 6, 0, 0}, 8, { 0, 8, 4, 3, 2 }
#include "providers/host/conv/conv_micro.h"

namespace pl::host {
const ConvKernels* conv_kernels_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")
             ? &avx2::kKernels
             : nullptr;
}
}  // namespace pl::host
#else
namespace pl::host {
const ConvKernels* conv_kernels_avx2() { return nullptr; }
}  // namespace pl::host
#endif
