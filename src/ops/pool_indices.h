// The pool whose maxima a pool_indices op finds.
#pragma once

#include "ops/op.h"

namespace pl {

// Checked and inferred, of the same input.
Op forward_of_indices(const Op& op);

}  // namespace pl
