// What the processor's instructions compute with, as far as it decides about whole plans.
#pragma once

#include "core/dtype.h"

namespace pl {

// Whether products of a half-precision dtype on `cpu` use instructions for it: f16 by AVX512-FP16 or AMX-FP16, bf16 by
// AVX512-BF16 or AMX-BF16.  False: they are converted to f32 and back, and take longer than those of f32.  By the
// instruction set that oneDNN may use, which ONEDNN_MAX_CPU_ISA lowers; defined in providers/onednn/engine.cpp.
bool processor_multiplies(DType dtype);

}  // namespace pl
