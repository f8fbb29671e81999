#include "graph/named_ops.h"

namespace pl {

bool is_attention(const Node& node) { return node.schema->name == "scaled_dot_product_attention"; }
bool is_attention_backward(const Node& node) { return node.schema->name == "scaled_dot_product_attention_backward"; }
bool is_batch_norm(const Node& node) { return node.schema->name == "batch_norm"; }
bool is_batch_norm_training(const Node& node) { return node.schema->name == "batch_norm_training"; }
bool is_batch_norm_backward(const Node& node) { return node.schema->name == "batch_norm_backward"; }
bool is_squeeze_excite(const Node& node) { return node.schema->name == "squeeze_excite"; }
bool is_squeeze_excite_backward(const Node& node) { return node.schema->name == "squeeze_excite_backward"; }
bool is_cast(const Node& node) { return node.schema->name == "cast"; }
bool is_channel_shuffle(const Node& node) { return node.schema->name == "channel_shuffle"; }
bool is_dequantize(const Node& node) { return node.schema->name == "dequantize_linear"; }
bool is_quantize(const Node& node) { return node.schema->name == "quantize_linear"; }
bool is_integer_product(const Node& node) {
  return node.schema->kind == "quantized_conv" || node.schema->kind == "quantized_matmul";
}
bool is_linear_nbits(const Node& node) { return node.schema->name == "linear_nbits"; }
bool is_rotary_embedding(const Node& node) { return node.schema->name == "rotary_embedding"; }
bool is_scatter(const Node& node) { return node.schema->name == "scatter"; }
bool is_choice(const Node& node) { return node.schema->name == "where"; }
bool is_equality(const Node& node) { return node.schema->name == "eq"; }
bool is_dropout(const Node& node) { return node.schema->name == "random_dropout"; }
bool is_softmax(const Node& node) { return node.schema->name == "softmax"; }
bool is_mean(const Node& node) { return node.schema->name == "mean"; }
bool is_sum(const Node& node) { return node.schema->name == "sum"; }
bool is_maximum(const Node& node) { return node.schema->name == "amax"; }
bool is_running_sum(const Node& node) { return node.schema->name == "cumsum"; }
bool is_root_of_squares(const Node& node) { return node.schema->name == "reduce_l2"; }
bool is_adaptive_pool(const Node& node) { return node.schema->kind == "adaptive_pool"; }
bool is_pointwise(const Node& node) { return node.schema->name == "pointwise"; }
bool is_pad(const Node& node) { return node.schema->name == "pad"; }
bool is_look_up(const Node& node) { return node.schema->kind == "gather"; }
bool is_random(const Node& node) { return node.schema->kind == "random"; }

}  // namespace pl
