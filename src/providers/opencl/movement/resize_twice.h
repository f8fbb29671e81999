// Images to twice their height and width, on GPUs (kernels/resize/nearest_twice.cl, linear_twice.cl).
#pragma once

#include "providers/opencl/runtime/opencl_device.h"
#include "providers/provider.h"

namespace pl::opencl {

// Adds candidates for a resize that doubles both of two dimensions; nothing for others.
void list_resize_twice(const Op& op, OpenclDevice& device, CandidateList& out);

}  // namespace pl::opencl
