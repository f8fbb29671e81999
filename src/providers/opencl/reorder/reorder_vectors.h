// Reorders of unchanged elements by vectors, on CPUs: tiles transposed in registers, and runs copied.
#pragma once

#include "providers/opencl/pointwise/pointwise_axes.h"
#include "providers/opencl/runtime/opencl_device.h"
#include "providers/provider.h"

namespace pl::opencl {

// Adds a candidate for op's reorder, whose axes `it` has (0: source, 1: destination), if it suits and the device is a
// CPU.
void add_reorder_vectors(const Op& op, OpenclDevice& device, const Iteration& it, CandidateList& out);

}  // namespace pl::opencl
