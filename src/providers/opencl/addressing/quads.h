// Kernels that take channels in fours, innermost in memory: one access of 16 bytes (8 of 16-bit types) a work-item.  On
// CPUs some of them take whole vectors, from blocks of channels too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/dtype.h"
#include "providers/opencl/runtime/opencl_device.h"

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

// Channels that a work-item takes, of `run` that lie side by side: quads on GPUs, on CPUs the device's vectors; 0 where
// there are no such.
inline int vector_of_channels(const OpenclDevice& device, int64_t run) {
  if (!device.capabilities().cpu) return run % 4 ? 0 : 4;
  for (int vector = device.capabilities().native_vector_float >= 16 ? 16 : 8; vector >= 4; vector /= 2)
    if (run % vector == 0) return vector;
  return 0;
}

// On CPUs a work-group costs up to a microsecond: some for each processor, of as many work-items as that makes, along
// the first dimension first.
inline std::vector<size_t> group_of_vectors(const OpenclDevice& device, const std::vector<size_t>& global) {
  constexpr size_t kGroups = 4;  // a processor
  const Capabilities& has = device.capabilities();
  size_t items = 1;
  for (size_t size : global) items *= size;
  size_t left = std::max<size_t>(1, std::min<size_t>(items / (kGroups * has.compute_units), has.max_work_group));
  std::vector<size_t> group;
  for (size_t d = 0; d < global.size(); ++d) {
    group.push_back(std::max<size_t>(1, std::min({global[d], left, has.max_work_items[d]})));
    left /= group.back();
  }
  return group;
}

// What reaches memory's speed on GPUs is no better than one element a work-item on CPUs, which have vectors of their
// own: there it is tried only where everything is.
inline double efficiency_of_quads(const OpenclDevice& device) { return device.capabilities().cpu ? 0.05 : 0.8; }

}  // namespace pl::opencl
