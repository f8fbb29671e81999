// Transposition of two-dimensional pieces: what every reorder between NCHW, NHWC and nChw16c comes down to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pl::host {

// target[b * target_step + a] = source[a * source_step + b] for a < columns, b < rows; steps in elements.
using TransposeRun = void (*)(const void* source, int64_t source_step, void* target, int64_t target_step,
                              int64_t columns, int64_t rows);
TransposeRun transposer(size_t element_bytes);  // 1, 2, 4 or 8

}  // namespace pl::host
