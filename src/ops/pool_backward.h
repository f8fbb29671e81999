// The pool that a pool_backward op derives.
#pragma once

#include "ops/op.h"

namespace pl {

// Checked and inferred: its input 0 is of the shape and dtype of the result of `backward`, its result is the gradient.
Op forward_of_pool(const Op& backward);

}  // namespace pl
