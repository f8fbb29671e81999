// Kernels that take channels in fours, innermost in memory: one access of 16 bytes (8 of 16-bit types) a work-item.
#pragma once

#include <cstddef>
#include <vector>

#include "core/dtype.h"
#include "providers/opencl/opencl_device.h"

namespace pl::opencl {

// The types that LOAD_QUAD and STORE_QUAD of kernels/common/dtype.clh know.
inline bool has_quads(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// A work-group of 128 for quads of channels by positions, with as few work-items as can be beyond the last channel.
inline std::vector<size_t> group_of_quads(size_t quads) {
  size_t across = 1;
  while (across < 32 && across < quads) across *= 2;
  while (across > 8 && quads % across) across /= 2;
  return {across, 128 / across, 1};
}

// What reaches memory's speed on GPUs is no better than one element a work-item on CPUs, which have vectors of their
// own: there it is tried only where everything is.
inline double efficiency_of_quads(const OpenclDevice& device) { return device.capabilities().cpu ? 0.05 : 0.8; }

}  // namespace pl::opencl
