// What normalisations and their gradients check alike.
#pragma once

#include <cmath>
#include <optional>

#include "ops/op.h"

namespace pl {

// The attribute `eps` is finite and at least 0.
void check_eps(const Op& op);

// The attribute `normalized_shape`, which must be the last sizes of input 0.
Dims checked_normalized_shape(const Op& op);

// Between which a result lies: the attributes `low` and `high` of a norm's gradient, infinite where they are None.
struct Limits {
  double low, high;

  static Limits of(const Op& op);
  // Those of relu, relu6 and clip; nothing for other functions, and where none lies between.
  static std::optional<Limits> of(const PostOp& function);
  void set(Attributes& attributes) const;
  explicit operator bool() const { return std::isfinite(low) || std::isfinite(high); }  // whether results are limited
};

}  // namespace pl
