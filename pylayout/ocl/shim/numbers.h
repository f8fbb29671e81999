// Numbers on the device, and in attributes.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ocl {

// A tensor of float32 without dimensions. So one that changes from call to call asks for no new kernel, and none waits:
// the last ones are kept, and a new one is written by a command of the queue.
at::Tensor number_on(c10::DeviceIndex device, double value);

// As attributes hold a real number, exactly.
std::string text_of(double value);

}  // namespace ocl
