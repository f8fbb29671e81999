// winograd.h for any processor: vectors of 4 floats, as the compiler's default instruction set has them.
#include "providers/host/conv/winograd.h"

#define PL_WINOGRAD_ISA "generic"
#define PL_WINOGRAD_WIDTH 4
#define PL_WINOGRAD_PANEL 1
#define PL_WINOGRAD_ROWS(vectors) 2
#include "providers/host/conv/winograd_kernels.h"

const pl::host::WinogradKernels* pl::host::winograd_generic() { return &kKernels; }
