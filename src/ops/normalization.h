// What normalisations and their gradients check alike.
#pragma once

#include "ops/op.h"

namespace pl {

// The attribute `eps` is finite and at least 0.
void check_eps(const Op& op);

// The attribute `normalized_shape`, which must be the last sizes of input 0.
Dims checked_normalized_shape(const Op& op);

}  // namespace pl
