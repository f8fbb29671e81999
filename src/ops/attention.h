// Attention and its gradients by products and softmax, with the scores as tensors, where they are not left to the ops for
// them: heads wider than a GPU's kernels take, a mask that is derived by.
#pragma once

#include <array>

#include "ops/gradient.h"

namespace pl {

using AttentionGradients = std::array<Builder::Value, 4>;  // by q, k, v and the mask; kNone where it is not wanted

// `op`: an attention, whose attributes count; values: q, k, v and the mask or kNone.  Scores are in f32.
Builder::Value attention_by_parts(Builder& builder, const Op& op, const std::array<Builder::Value, 4>& values);

// `op`: an attention or its backward op, whose attributes count; values: q, k, v, the mask or kNone, and the gradient
// by the result.
AttentionGradients attention_gradients(Builder& builder, const Op& op, const std::array<Builder::Value, 5>& values,
                                       bool by_mask);

}  // namespace pl
