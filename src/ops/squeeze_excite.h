// squeeze_excite and its gradients by their parts, for devices that have no kernels for them.
#pragma once

#include <array>
#include <vector>

#include "ops/gradient.h"

namespace pl {

// `op`: the forward or the backward op, whose attributes count; inputs: x, weight1, bias1, weight2, bias2.
Builder::Value squeeze_excite_by_parts(Builder& builder, const Op& op, const std::vector<Builder::Value>& inputs);
// The gradients by these inputs; `grad`: by the result.
std::array<Builder::Value, 5> squeeze_excite_gradients(Builder& builder, const Op& op,
                                                       const std::vector<Builder::Value>& inputs, Builder::Value grad);

}  // namespace pl
