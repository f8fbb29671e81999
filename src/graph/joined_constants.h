// Constants in a row: a tensor that holds others one behind the other along their first axis and has no memory for it.
//
// Its bytes are those of the parts, read when somebody asks for them, which is when they are packed.  So weights that
// are one for an op need not lie in memory twice, nor be copied and known again for each size of a plan.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace pl {

class Context;

// Plain and dense, of parts of one dtype, alike but along the first axis, in any layout and on any device.  They must
// not change, and are kept.
TensorRef constants_in_a_row(Context& context, std::vector<TensorRef> parts);
// The tensor itself, or where it has no memory a copy of it on the host.
TensorRef in_memory(Context& context, const TensorRef& tensor);

}  // namespace pl
