// Functions of one tensor of integers or flags that give one of the same dtype (of logical_not: flags), on the elements
// as they are: as 64-bit integers they would take up to twenty times as long.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace pl::host {

// y[i] = f(x[i]); y may be x where their elements are as large.
using NativeRun = void (*)(const void* x, void* y, int64_t n, double alpha, double beta);
// By the name of the function; null where it has no such form for these dtypes and numbers.
NativeRun find_native_unary(std::string_view name, DType from, DType to, double alpha, double beta);

}  // namespace pl::host
