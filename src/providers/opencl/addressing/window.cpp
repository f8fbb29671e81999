#include "providers/opencl/addressing/window.h"

#include <algorithm>

namespace pl::opencl {

std::optional<std::string> window_refusal(const Op& op) {
  const int spatial = spatial_rank(op);
  for (int axis = 0; axis < spatial; ++axis) {
    const Window w = window_of(op, axis);
    // Inputs, or positions between them, that a window of any output touches lie within these sums, which stay
    // below 2^63: sizes of tensors are below 2^61, the rest below 2^62.
    const int64_t limit = (int64_t(1) << 31) - 1;
    if (std::max(w.in, w.out) + w.begin + w.end + w.reach() > limit)
      return concat(op.schema->name, ": positions of the window along ", spatial_name(spatial, axis),
                    " need more than 31 bits");
  }
  return std::nullopt;
}

WindowArgument window_argument(const Op& op) {
  WindowArgument argument;
  const int spatial = spatial_rank(op);
  for (int axis = 0; axis < spatial; ++axis) {
    const Window w = window_of(op, axis);
    const int at = 3 - spatial + axis;
    argument.size[at] = cl_int(w.kernel);
    argument.stride[at] = cl_int(w.stride);
    argument.dilation[at] = cl_int(w.dilation);
    argument.begin[at] = cl_int(w.begin);
  }
  return argument;
}

}  // namespace pl::opencl
