// Single elements of any dtype as numbers: for checks and constants, not for loops over activations.
#pragma once

#include "core/dtype.h"

namespace pl {

// The element at `from`, which need not be aligned.  A double holds every value of all dtypes but s64 above 2^53.
double load(DType dtype, const void* from);
// Stores a number that the dtype holds; halves are rounded to nearest even, fractions of integers are cut off.
void store(DType dtype, void* to, double value);

}  // namespace pl
