// The gradients of attention by products and softmax as tensors, where they are not left to the op for them: for a mask
// that is derived by, and on GPUs.
#pragma once

#include <array>

#include "ops/gradient.h"

namespace pl {

using AttentionGradients = std::array<Builder::Value, 4>;  // by q, k, v and the mask; kNone where it is not wanted

// `op`: an attention or its backward op, whose attributes count; values: q, k, v, the mask or kNone, and the gradient
// by the result.
AttentionGradients attention_gradients(Builder& builder, const Op& op, const std::array<Builder::Value, 5>& values,
                                       bool by_mask);

}  // namespace pl
