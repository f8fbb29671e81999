// winograd.h for AVX-512: 32 registers of 16 floats.
#include "providers/host/conv/winograd.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define PL_WINOGRAD_ISA "avx512"
#define PL_WINOGRAD_WIDTH 16
#define PL_WINOGRAD_PANEL 4
#define PL_WINOGRAD_ROWS(vectors) ((vectors) == 4 ? 6 : (vectors) == 3 ? 8 : 12)
#include "providers/host/conv/winograd_kernels.h"
#pragma GCC pop_options

const pl::host::WinogradKernels* pl::host::winograd_avx512() {
  return __builtin_cpu_supports("x86-64-v4") ? &kKernels : nullptr;
}

#else

const pl::host::WinogradKernels* pl::host::winograd_avx512() { return nullptr; }

#endif
