// Which elementwise computations compute vectors of neighbours as such, on CPUs.
#pragma once

#include "providers/opencl/pointwise_kernel.h"

namespace pl::opencl {

// Floats in a vector of an innermost axis of so many elements, 8 or more.
int vector_of(const OpenclDevice& device, int64_t size);
// Whether vectors of neighbours can be computed as such: on CPUs, of floats, where tensors have neighbours side by side
// or one element for all of them.
bool whole_vectors(const OpenclDevice& device, const ComputationPlan& plan);

}  // namespace pl::opencl
