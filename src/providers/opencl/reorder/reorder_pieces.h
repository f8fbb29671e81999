// reorder and cast of a plain tensor of few channels to one block of them: what first layers take.
#pragma once

#include "providers/opencl/runtime/opencl_device.h"
#include "providers/provider.h"

namespace pl::opencl {

// Adds a candidate if `src` is plain with at most 8 channels and `dst` has them in one block of 4 or 8.
void add_reorder_pieces(const Op& op, OpenclDevice& device, const TensorDesc& src, const TensorDesc& dst,
                        CandidateList& out);

}  // namespace pl::opencl
