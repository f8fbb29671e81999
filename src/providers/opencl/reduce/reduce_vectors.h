// Reductions of rows by vectors, on CPUs (kernels/reduce/reduce_vectors.cl), and by work-groups, on GPUs
// (kernels/reduce/reduce_groups.cl): for reduce and for global pools.
#pragma once

#include <string>
#include <vector>

#include "providers/opencl/runtime/opencl_device.h"
#include "providers/provider.h"

namespace pl::opencl {

// Adds a candidate for each layout in which `function` ("sum", "mean", "amax"...) of `dims` of the op's input 0 can be
// had so.  `keepdim`: the op's output has these dimensions, of size 1.
void add_reduce_vectors(const Op& op, OpenclDevice& device, const std::string& function, const std::vector<int>& dims,
                        bool keepdim, CandidateList& out);

}  // namespace pl::opencl
