// Which elementwise computations take several neighbours at once: as vectors, on CPUs, or by one access, on GPUs.
#pragma once

#include "providers/opencl/pointwise/pointwise_kernel.h"

namespace pl::opencl {

// Floats in a vector of an innermost axis of so many elements, 8 or more.
int vector_of(const OpenclDevice& device, int64_t size);
// Whether vectors of neighbours can be computed as such: on CPUs, of floats, where tensors have neighbours side by side
// or one element for all of them.
bool whole_vectors(const OpenclDevice& device, const ComputationPlan& plan);

// On GPUs: whether every `count` neighbours of a tensor, 4 or 8, lie at a multiple of as many, so that one access takes
// them, and whether eight of each tensor that has neighbours are 16 bytes.
bool in_one_access(const Iteration& it, size_t tensor, DType dtype, int count);
bool in_octs(const ComputationPlan& plan);

}  // namespace pl::opencl
