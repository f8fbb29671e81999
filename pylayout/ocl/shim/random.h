// Dropout by a seed, from which its gradient draws the numbers again.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace ocl {

// Whether an op on x is recorded, so that it must be one of PyTorch's.
bool is_traced(const at::Tensor& x);
// The next seed of a device's default generator, for a dropout of so many elements.
at::Tensor dropout_seed(c10::DeviceIndex device, int64_t elements);
// With gradients, which have gradients.
at::Tensor dropped(const at::Tensor& x, const at::Tensor& seed, double p);

}  // namespace ocl
