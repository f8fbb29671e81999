// reorder through local memory, where source and destination run along different axes
// (kernels/reorder/reorder_tiled.cl, reorder_quads.cl).
#pragma once

#include "providers/opencl/pointwise/pointwise_axes.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {

// The axis along which tensor `t` (0: the source, 1: the destination) has stride 1, or -1.
int unit_axis(const Iteration& it, size_t t);

// Adds the candidates: none where both run along the same axis, or where more than one dimension is checked.
void add_reorder_tiled(const Op& op, OpenclDevice& device, std::shared_ptr<const Iteration> it, CandidateList& out);

}  // namespace pl::opencl
