#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace ocl {

// Runs an op on copies of its arguments on the CPU, and gives results on the device.
void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason);

}  // namespace ocl
