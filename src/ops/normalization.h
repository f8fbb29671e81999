// What normalisations and their gradients check alike.
#pragma once

#include <optional>

#include "ops/op.h"

namespace pl {

// The attribute `eps` is finite and at least 0.
void check_eps(const Op& op);

// The attribute `normalized_shape`, which must be the last sizes of input 0.
Dims checked_normalized_shape(const Op& op);

// Between which values relu, relu6 or clip leaves its argument as it is; nothing for other functions, and where none lies
// between.
struct Limits {
  double low, high;

  static std::optional<Limits> of(const PostOp& function);
};

}  // namespace pl
