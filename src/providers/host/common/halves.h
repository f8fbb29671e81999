// Runs of f16 as floats and back, by the processor's own instructions where it has them, and of floats as bf16: of the
// arithmetic in elements.h the compiler makes two to four times as many.
#pragma once

#include <cstdint>

#include "providers/host/common/elements.h"

namespace pl::host {

void widen_run(const Half* source, float* target, int64_t n);
// To nearest even; NaN stays NaN.
void narrow_run(const float* source, Half* target, int64_t n);
void narrow_run(const float* source, BFloat16* target, int64_t n);

}  // namespace pl::host
