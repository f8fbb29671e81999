// What kernels of random numbers share (kernels/common/philox.clh).
#pragma once

#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {

// How kernels read the input `seed`, of one or two elements.
void define_seed(KernelSource& source, const TensorDesc& seed);

}  // namespace pl::opencl
