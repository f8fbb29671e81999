// What an op is called in the catalog and in the cost database, and which of its tensors are strided views of larger
// ones.
#pragma once

#include <string>

#include "ops/op.h"
#include "providers/provider.h"

namespace pl {

// The layouts of a tensor's own choosing do not belong to an op's description, unless they are of no known family
// (then the candidates asked for differ).  Reorders are about nothing but layouts, so theirs stay.
TensorDesc standardised(const TensorDesc& desc);
// An op's key in the cost database.
std::string describe(const Op& op);

bool is_strided_view(const TensorDesc& desc);
bool has_strided_views(const Op& op);
// Whether a candidate takes and gives the strided views that the op states.
bool suits_strided_views(const Op& op, const Candidate& candidate);

}  // namespace pl
