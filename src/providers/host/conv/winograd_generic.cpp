// winograd.h for any processor: vectors of 4 floats, as the compiler's default instruction set has them.  AArch64 has
// 32 registers of them (NEON), x86-64 has 16 (SSE2).
#include "providers/host/conv/winograd.h"

#if defined(__aarch64__)
#define PL_WINOGRAD_ISA "neon"
#define PL_WINOGRAD_ROWS(vectors) 5
#else
#define PL_WINOGRAD_ISA "generic"
#define PL_WINOGRAD_ROWS(vectors) 2
#endif
#define PL_WINOGRAD_WIDTH 4
#define PL_WINOGRAD_PANEL 1
#include "providers/host/conv/winograd_kernels.h"

const pl::host::WinogradKernels* pl::host::winograd_generic() { return &kKernels; }
