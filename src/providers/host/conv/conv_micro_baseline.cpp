// conv_micro.h for whatever vectors the architecture has always had: NEON's on AArch64, 32 registers of 4 floats;
// elsewhere the compiler puts 8 floats together from what there is.
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "providers/host/conv/conv_kernels.h"

// Vectors wider than the registers are passed in memory; no such function is called from another file.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
#define PL_CONV_NAMESPACE baseline
#define PL_CONV_MASKS 0
#if defined(__aarch64__)
#define PL_CONV_ISA "neon"
#define PL_CONV_WIDTH 4
#define PL_CONV_GROUPS 1
#define PL_CONV_TILES \
  4, {0, 14, 9, 7, 5}, 8, { 0, 8, 8, 7, 5 }
#else
#define PL_CONV_ISA "baseline"
#define PL_CONV_WIDTH 8
#define PL_CONV_GROUPS 0
#define PL_CONV_TILES \
  1, {0, 4, 0, 0, 0}, 4, { 0, 4, 2, 1, 1 }
#endif
#include "providers/host/conv/conv_micro.h"

namespace pl::host {
const ConvKernels* conv_kernels_baseline() { return &baseline::kKernels; }
}  // namespace pl::host
