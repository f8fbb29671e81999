// Functions of two tensors of 8 or 32 bits an element that give one like them, on the elements as they are: as 64-bit
// integers they would take ten times as long.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace pl::host {

// out[i] = f(a[i * a_step], b[i * b_step]) with steps of 0 or 1; out may be a or b.
using NarrowRun = void (*)(const void* a, int64_t a_step, const void* b, int64_t b_step, void* out, int64_t n);
// By the name of the function; null where it has no such form.
NarrowRun find_narrow_binary(std::string_view name, DType dtype);

}  // namespace pl::host
