// For tests of pools on OpenCL: pooled values in double precision.
#pragma once

#include <algorithm>
#include <cmath>

#include "opencl_elements.h"
#include "ops/spatial.h"

namespace pl::opencl_testing {

inline double pooled(const Op& op, const Input& x, const Dims& out) {
  const int spatial = spatial_rank(op);
  const bool max = op.attributes[attr::mode] == "max";
  Dims kernel;
  double seen = 0, sum = 0, best = -INFINITY, padded = 1;
  for (int axis = 0; axis < spatial; ++axis) {
    const Window w = window_of(op, axis);
    kernel.push_back(w.kernel);
    const int64_t first = out[2 + axis] * w.stride - w.begin;
    padded *= double(std::min(first + w.kernel, w.in + w.end) - first);
  }
  each(kernel, [&](const Dims& k) {
    Dims index = out;
    for (int axis = 0; axis < spatial; ++axis) {
      const Window w = window_of(op, axis);
      index[2 + axis] = out[2 + axis] * w.stride - w.begin + k[axis] * w.dilation;
      if (index[2 + axis] < 0 || index[2 + axis] >= w.in) return;
    }
    ++seen;
    sum += at(x, index);
    best = larger(best, at(x, index));
  });
  if (max) return best;
  return sum / (op.attributes[attr::count_include_pad] ? padded : seen);
}

}  // namespace pl::opencl_testing
