// The slices that an index names, as numbers that can be sorted (kernels/scatter/scatter_places.cl).
#pragma once

#include <vector>

#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

// An index: (outer, count, inner), with a number for each dimension that it looks up; a row of it for each outer and
// inner.
struct NamedSlices {
  int64_t outer = 1, count = 1, inner = 1;
  std::vector<cl_int> sizes, steps;  // of the dimensions that are looked up: how many there are, what each step counts
  int64_t rows() const { return outer * inner; }
  // Queues what writes the numbers, rows behind one another, to the workspace, `first` numbers from its start.
  void add_numbers(KernelList& kernels, int input, DType index, int64_t first) const;
};

}  // namespace pl::opencl
