// Slices along some axes, as slice and slice_scatter take them.
#pragma once

#include <vector>

#include "ops/op.h"

namespace pl {

struct SlicedAxes {
  std::vector<int64_t> starts, axes, steps;  // one each; axes from 0 to the rank, each at most once, steps at least 1

  // By the attributes starts, axes (None: the first ones) and steps (None: ones) of an op on its first input.
  static SlicedAxes of(Op& op);
};

}  // namespace pl
