// winograd.h for AVX2 with FMA: 16 registers of 8 floats.
#include "providers/host/conv/winograd.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define PL_WINOGRAD_ISA "avx2"
#define PL_WINOGRAD_WIDTH 8
#define PL_WINOGRAD_PANEL 1
#define PL_WINOGRAD_ROWS(vectors) 6
#include "providers/host/conv/winograd_kernels.h"
#pragma GCC pop_options

const pl::host::WinogradKernels* pl::host::winograd_avx2() {
  return __builtin_cpu_supports("x86-64-v3") ? &kKernels : nullptr;
}

#else

const pl::host::WinogradKernels* pl::host::winograd_avx2() { return nullptr; }

#endif
