// How the positions of a global pool are shared out (kernels/adaptive_pool/global_pool_quad.cl).
#pragma once

#include <cstdint>

#include "core/desc.h"
#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

struct GlobalPool {
  DType dtype = DType::f32;
  bool maximum = false;
  int64_t batch = 0, channels = 0, positions = 0;
  int64_t quads = 0;  // of a work-group
  int64_t parts = 1, positions_of_part = 0;

  // Of x, dense with channels innermost and a multiple of 4 of them.  Parts so that the device is filled, each
  // work-item of a part having at least `least_of_lane` positions, and that sums are not long.
  GlobalPool(const OpenclDevice& device, const TensorDesc& x, bool maximum, int64_t least_of_lane);

  bool wide() const { return batch * positions * channels >= int64_t(1) << 30; }  // places need 64 bits
  size_t parts_bytes() const { return size_t(batch * parts * channels) * sizeof(float); }
  size_t workspace_bytes() const { return parts > 1 ? parts_bytes() : 0; }

  // Adds a launch.  `first`: from input 0 to the parts, else from the parts; `last`: to output 0, else to the
  // workspace, where parts lie.  What is written is multiplied by `scale` if it is the last.
  void add(KernelList& kernel, bool first, bool last, double scale) const;
};

}  // namespace pl::opencl
