// integer_micro.h for x86-64-v4 with VNNI, which adds the products of four bytes to sums of 32 bits.
#if defined(__x86_64__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of GCC 12's intrinsics without masks
#include <immintrin.h>
#endif

#include "providers/host/quantized/integer_kernels.h"

// Clang has another pragma for this; there the reference serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512vnni,avx2,fma,bmi,bmi2")
#define PL_INTEGER_ISA "vnni"
#define PL_INTEGER_NAMESPACE integer_vnni
#define PL_INTEGER_BITS 512
#define PL_INTEGER_DOTS 1
#define PL_INTEGER_PIXELS 12
#define PL_INTEGER_WIDE_PIXELS 8
#include "providers/host/quantized/integer_micro.h"

namespace pl::host {
const IntegerKernels* integer_kernels_vnni() {
  return integer_kernels_avx512() && __builtin_cpu_supports("avx512vnni") ? &integer_vnni::kIntegerKernels : nullptr;
}
}  // namespace pl::host
#else
namespace pl::host {
const IntegerKernels* integer_kernels_vnni() { return nullptr; }
}  // namespace pl::host
#endif
