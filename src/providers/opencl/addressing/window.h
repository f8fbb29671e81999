// Windows as kernels take them (kernels/common/window.clh), and activations with three spatial dimensions.
#pragma once

#include <optional>
#include <string>

#include "ops/spatial.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/loader.h"

namespace pl::opencl {

struct WindowArgument {
  cl_int size[3] = {1, 1, 1};
  cl_int stride[3] = {1, 1, 1};
  cl_int dilation[3] = {1, 1, 1};
  cl_int begin[3] = {0, 0, 0};
};

// Of a conv, conv_transpose or pool.  Where some position of a window needs more than 31 bits: the reason to refuse.
std::optional<std::string> window_refusal(const Op& op);
WindowArgument window_argument(const Op& op);

// Adds spatial dimensions of size 1 before those of (n, c, spatial...) or (oc, ic, spatial...), to make them three.
inline Addressing with_three_spatial(const TensorDesc& desc) { return Addressing(desc).insert(2, 5 - desc.rank()); }

}  // namespace pl::opencl
