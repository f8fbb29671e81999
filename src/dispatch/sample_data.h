// Data for measurements: the same logical tensor in whatever layout a candidate asks for.
//
// Candidates of one op must give one result, and can be compared only on the same values.  Each value depends on the
// element's index alone, and a run of elements along one dimension is a slice of a table, so that writing a tensor
// takes little more than copying it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/desc.h"

namespace pl {

// What an input holds.
struct SampleRange {
  double low = 0.5, high = 1.5;    // floating types: no denormals, positive (variances), finite through any op here
  int64_t least = 0, largest = 0;  // integer types, both included; bool: 0 and 1
  bool ascending = false;          // integers from `least` to `largest` in equal steps, in the order of the elements
};

// Writes the tensor's elements to `bytes`, which holds desc.size_bytes(); padding of blocks is zero.  Gaps between the
// elements of strided tensors are left alone.  `seed` tells inputs of one op apart.
void write_sample(const TensorDesc& desc, const SampleRange& range, unsigned seed, char* bytes);

}  // namespace pl
