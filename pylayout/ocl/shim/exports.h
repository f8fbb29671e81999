// What Python calls, through ctypes. A function that may fail gives 0, or 1 with its message in ocl_error().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pylayout.h"

extern "C" {
// Asks Python to call ocl_start; use: 0 to count devices, 1 to use one, when ops must be registered, too.
using ocl_starter = void (*)(int use);
}

namespace ocl {
void start_with(pl_context context, const std::vector<std::string>& names);
void set_starter(ocl_starter starter);
}  // namespace ocl
