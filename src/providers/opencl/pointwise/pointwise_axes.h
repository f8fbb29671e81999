// The loops of a pointwise or reducing kernel: tensors of any layout as strides over common axes.
//
// The iteration space is the broadcast shape of the inputs.  A dimension that some tensor blocks becomes two
// axes, block and place in the block, and every tensor is then a sum of (axis index * stride).  Axes are put in
// the order of memory and neighbouring ones merged where all tensors allow it, so that a contiguous
// computation ends as one axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "providers/opencl/program/kernel_source.h"

namespace pl::opencl {

struct Axis {
  int64_t size = 1;
  std::vector<int64_t> strides;  // of each tensor, in elements; 0 where it is broadcast or reduced
};

// A dimension that is not a multiple of its block: index < limit, where index = outer * block + inner.
struct Check {
  int outer, inner;  // axes; outer is -1 where there is a single block
  int64_t block, limit;
  bool stored = false;  // the outputs have the places beyond the limit, as padding: zero is stored there
};

struct Iteration {
  std::vector<Axis> kept;     // outermost first; at least one
  std::vector<Axis> reduced;  // outermost first; at least one if anything is reduced
  std::vector<Check> kept_checks, reduced_checks;
  std::vector<int64_t> offsets;  // of each tensor, in elements
  bool wide = false;             // offsets or counts need 64 bits

  int64_t kept_count() const;
  int64_t reduced_count() const;
};

// `desc` aligned to `space` by NumPy's rules: dimensions are added in front, broadcast ones get stride 0.
Addressing broadcast_to(const TensorDesc& desc, const Dims& space);

// The loops over `space` for tensors aligned to it (inputs, then outputs).  `reduced` marks reduced dimensions, over
// which outputs have size 1.  Returns false, with the reason, where layouts do not fit together.
bool make_iteration(const Dims& space, const std::vector<bool>& reduced, const std::vector<Addressing>& inputs,
                    const std::vector<Addressing>& outputs, Iteration& out, std::string& reason);

}  // namespace pl::opencl
