// Tensors as rows, for kernels that work along some dimensions (kernels/common/rows.clh).
#pragma once

#include <vector>

#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/opencl_device.h"

namespace pl::opencl {

// Eight dimensions: `last` (in this order) at the end, the others in their own order before them, ones in front.
Addressing as_rows(const Addressing& from, const std::vector<int>& last);
inline Addressing as_rows(const TensorDesc& desc, const std::vector<int>& last) {
  return as_rows(Addressing(desc), last);
}

// Work-items that share a row of `size` elements: one on a CPU, where a work-group is a thread's loop; on others enough
// to read a row together.
int row_group(const OpenclDevice& device, int64_t size);

}  // namespace pl::opencl
