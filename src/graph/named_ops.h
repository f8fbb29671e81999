// Ops that a rewrite of graphs knows by name: it builds them, or it recognises exactly their formula.  Here alone are
// names compared (tests/test_layers.py); whatever else is asked of an op, its schema states (ops/rules.h).
#pragma once

#include "graph/graph.h"

namespace pl {

// Rewrites that give or take apart these.
bool is_attention(const Node& node);
bool is_attention_backward(const Node& node);
bool is_batch_norm(const Node& node);
bool is_batch_norm_training(const Node& node);
bool is_batch_norm_backward(const Node& node);
bool is_squeeze_excite(const Node& node);
bool is_squeeze_excite_backward(const Node& node);
bool is_cast(const Node& node);
bool is_channel_shuffle(const Node& node);
bool is_dequantize(const Node& node);
bool is_quantize(const Node& node);
bool is_integer_product(const Node& node);  // of 8 bits
bool is_linear_nbits(const Node& node);     // its weights are numbers of a few bits
bool is_rotary_embedding(const Node& node);
bool is_scatter(const Node& node);
// Parts of the formulas of attention, of norms and of squeeze and excite.
bool is_choice(const Node& node);  // where
bool is_equality(const Node& node);
bool is_softmax(const Node& node);
bool is_dropout(const Node& node);  // by random numbers
bool is_mean(const Node& node);
bool is_sum(const Node& node);
bool is_maximum(const Node& node);          // amax
bool is_running_sum(const Node& node);      // cumsum
bool is_root_of_squares(const Node& node);  // reduce_l2
bool is_adaptive_pool(const Node& node);
bool is_pointwise(const Node& node);
bool is_pad(const Node& node);
bool is_look_up(const Node& node);  // of rows, by positions
bool is_random(const Node& node);   // numbers of a distribution

}  // namespace pl
