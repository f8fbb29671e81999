// Known faults of oneDNN (providers/known_faults.h).
#pragma once

#include <string_view>

#include "ops/op.h"
#include "providers/known_faults.h"

namespace pl::onednn {

extern const KnownFault kStridedPostOps, kNanBecomesNumber, kTooOld;

// Whether the library that is loaded has the fault.
bool has(const KnownFault& fault);

// The fault that makes this implementation's result for the op wrong; null: none is known.  `post_ops`: the primitive
// itself applies a bias or an activation.
const KnownFault* fault_of(const Op& op, std::string_view implementation, bool post_ops);

// Whether the function, as a primitive of its own, turns NaN into a number.
bool loses_nan(std::string_view function);

}  // namespace pl::onednn
