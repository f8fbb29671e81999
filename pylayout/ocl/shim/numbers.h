// Numbers on the device, and in attributes.
#pragma once

#include <ATen/core/Tensor.h>

#include <bit>
#include <cstdint>
#include <string>

namespace ocl {

// A tensor of float32 without dimensions. So one that changes from call to call asks for no new kernel, and none waits:
// the last ones are kept, and a new one is written by a command of the queue.
at::Tensor number_on(c10::DeviceIndex device, double value);

// Whether two numbers are the same to a kernel: 0 and -0 are not, what is not a number is like itself.
inline bool are_same(double a, double b) { return std::bit_cast<int64_t>(a) == std::bit_cast<int64_t>(b); }

// As attributes hold a real number, exactly.
std::string text_of(double value);

}  // namespace ocl
