// What normalisations and their gradients check alike.
#pragma once

#include <cmath>

#include "ops/op.h"

namespace pl {

// The attribute `eps` is finite and at least 0.
void check_eps(const Op& op);

// The attribute `normalized_shape`, which must be the last sizes of input 0.
Dims checked_normalized_shape(const Op& op);

// The attributes `low` and `high` of batch_norm_training and its gradient; infinite where they are None.
struct Limits {
  double low, high;

  static Limits of(const Op& op);
  void set(Attributes& attributes) const;
  explicit operator bool() const { return std::isfinite(low) || std::isfinite(high); }  // whether results are limited
};

}  // namespace pl
