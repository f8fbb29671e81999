// Copies that may run together with others: how weights that change are brought to packed forms in each run.
#pragma once

#include <optional>

#include "providers/opencl/pointwise/pointwise_kernel.h"

namespace pl::opencl {

// dst[i] = src[i] for every index i of `shape`, zero in dst's padding, by one input and one output of `dtype`; with
// `rounds` f32 numbers to the nearest tf32.  Nothing where the sides share no axes, or are not of what may run
// together.
std::optional<ComputationPlan> plan_joinable_copy(const OpenclDevice& device, const Dims& shape, DType dtype,
                                                  const Addressing& src, const Addressing& dst, bool rounds);

}  // namespace pl::opencl
