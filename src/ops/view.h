// Views: other descriptions of the same memory.  Each function gives the description of a logical operation on a
// tensor in any layout, or nothing where no description can express it without moving elements.
//
// Results are named by the simplest layout that fits: plain, else channels last, else the order of their strides;
// blocked dimensions stay blocked.  A result that is dense and plain in memory always says so.
#pragma once

#include <optional>
#include <vector>

#include "ops/op.h"

namespace pl {

// Dimension i of the result is dimension permutation[i] of x.  Always possible.
TensorDesc view_permuted(const TensorDesc& x, const Dims& permutation);

// The elements of x, in the order of its dimensions, in another shape with as many elements.  Blocked dimensions
// must either stay as they are or be so small or so placed that their blocks make no difference (nChw16c with
// h = w = 1).
std::optional<TensorDesc> view_reshaped(const TensorDesc& x, const Dims& shape);

// Along dimension d the elements starts[d], starts[d] + steps[d], ...: counts[d] of them, all inside x; steps are
// positive.  Blocked dimensions must be cut at whole blocks, so that the padding of the result is zero again.
std::optional<TensorDesc> view_sliced(const TensorDesc& x, const Dims& starts, const Dims& counts, const Dims& steps);

}  // namespace pl
