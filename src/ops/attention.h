// Attention and its gradients by products and softmax, with the scores as tensors, where they are not left to the ops for
// them: heads wider than a GPU's kernels take, a mask that is derived by.
#pragma once

#include <array>

#include "ops/gradient.h"

namespace pl {

// By q, k, v, the mask and the sinks; kNone where it is not wanted.
using AttentionGradients = std::array<Builder::Value, 5>;

// Inputs of an attention; the mask, the seed and the sinks may be kNone.
struct AttentionInputs {
  Builder::Value q, k, v, mask, seed, sinks;
};

// `op`: an attention, whose attributes count.  Scores are in f32.
Builder::Value attention_by_parts(Builder& builder, const Op& op, const AttentionInputs& inputs);

// `op`: an attention or its backward op, whose attributes count; `grad`: the gradient by the result.
AttentionGradients attention_gradients(Builder& builder, const Op& op, const AttentionInputs& inputs,
                                       Builder::Value grad, bool by_mask, bool by_sinks);

}  // namespace pl
