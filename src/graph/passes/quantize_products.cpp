// quantize_products: a sum of products of dequantised tensors is computed of the integers.
#include "graph/named_ops.h"
#include "graph/passes/costs.h"
#include "graph/passes/integer_products.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"
#include "graph/passes/quantization.h"

namespace pl::passes {
namespace {

// The weights as integers: with one scale and zero point, or one of each for each output channel.
struct Weights {
  ValueId integers = kNoValue, scale = kNoValue, zero = kNoValue;
};

std::optional<Weights> weights_of(Rewriter& rewriter, ValueId id, int channel_axis, int64_t channels) {
  const int maker = rewriter.maker(id);
  if (maker < 0 || !is_dequantize(rewriter.node(size_t(maker)))) return std::nullopt;
  const Node& node = rewriter.node(size_t(maker));
  const Weights weights{rewriter.input(node, 0), rewriter.input(node, 1), rewriter.input(node, 2)};
  if (!is_byte(rewriter.desc(weights.integers).dtype) || rewriter.desc(weights.scale).dtype != DType::f32)
    return std::nullopt;
  if (!rewriter.is_constant(weights.scale)) return std::nullopt;
  if (weights.zero != kNoValue && !rewriter.is_constant(weights.zero)) return std::nullopt;
  if (rewriter.desc(weights.scale).elements() == 1) return weights;
  const bool by_channel = rewriter.shape(weights.scale) == Dims{channels};
  const int axis = int(rewriter.op(size_t(maker)).attributes[attr::axis]);
  if (!by_channel || axis != channel_axis) return std::nullopt;
  return weights;
}

// A product, what is added by channel, functions of the result.
struct Chain {
  Product product;
  ValueId bias = kNoValue;
  PostOps post_ops;
};

std::optional<Chain> chain_of(Rewriter& rewriter, int made) {
  if (made < 0 || rewriter.node(size_t(made)).schema->quantized_as.empty()) return std::nullopt;
  const auto product = product_of(rewriter, size_t(made));
  if (!product || product->transposed || reads_inputs(rewriter.post_ops(size_t(made)))) return std::nullopt;
  return Chain{*product, rewriter.input(rewriter.node(size_t(made)), kBias), rewriter.post_ops(size_t(made))};
}

// What stands before a quantize_linear.
std::optional<Chain> chain_before(Rewriter& rewriter, ValueId y) {
  auto [functions, made] = functions_before(rewriter, y);
  ValueId added = kNoValue;
  if (made >= 0 && is_bare(rewriter, size_t(made), Operation::sum)) {
    const Node& sum = rewriter.node(size_t(made));
    const size_t k = rewriter.is_given(rewriter.input(sum, 0)) ? 1 : 0;
    added = rewriter.input(sum, 1 - k);
    made = rewriter.sole_maker(rewriter.input(sum, k));
  }
  auto chain = chain_of(rewriter, made);
  if (!chain) return std::nullopt;
  if (added != kNoValue) {
    // One number for each channel: as a vector that is broadcast along the last axis.
    const Node& node = rewriter.node(size_t(made));
    const bool last = chain->product.output_axis == rewriter.desc(node.outputs[0]).rank() - 1;
    if (!last || rewriter.shape(added) != Dims{chain->product.output_channels}) return std::nullopt;
    if (chain->bias != kNoValue || !chain->post_ops.empty()) return std::nullopt;
    chain->bias = added;
  }
  chain->post_ops.insert(chain->post_ops.end(), functions.begin(), functions.end());
  return chain;
}

bool transposes(const Op& op, const Key<bool>& key) {
  return takes_attribute(*op.schema, key) && bool(op.attributes[key]);
}

// The chain as a product of the integers that its tensors are made of, its result real.
std::optional<IntegerProduct> integer_product_of(Rewriter& rewriter, const Chain& chain) {
  const Product& product = chain.product;
  const Node& node = rewriter.node(product.index);
  const Op op = rewriter.op(product.index);
  const auto x = quantized(rewriter, rewriter.input(node, 0));
  if (!x || transposes(op, attr::transpose_a) || rewriter.desc(x->integers).rank() < 2) return std::nullopt;
  if (chain.bias != kNoValue && rewriter.desc(chain.bias).dtype != DType::f32) return std::nullopt;
  // Matrices are (k, n) for integers.
  const bool conv = takes_attribute(*node.schema, attr::groups);
  const bool turn = !conv && (!product.matrices || transposes(op, attr::transpose_b));
  const int rank = rewriter.desc(rewriter.input(node, kWeight)).rank();
  const int axis = conv ? 0 : turn ? rank - 2 : rank - 1;
  auto weights = weights_of(rewriter, rewriter.input(node, kWeight), axis, product.output_channels);
  if (!weights || (rank < 2)) return std::nullopt;
  const bool constant = rewriter.is_constant(weights->integers);
  if (constant ? turn && rank != 2 : conv || turn) return std::nullopt;
  if (turn) weights->integers = turned_matrix(rewriter, product.index, weights->integers);

  IntegerProduct made;
  made.conv = conv;
  made.groups = product.groups;
  const Schema& schema = schema_of(node.schema->quantized_as);
  for (const auto& [name, value] : node.attributes)
    if (takes_attribute(schema, name)) made.attributes.set_value(name, value);
  set_post_ops(made.attributes, chain.post_ops);
  made.x = x->integers, made.x_scale = x->by.scale, made.x_zero = x->by.zero;
  made.weight = weights->integers, made.weight_scale = weights->scale, made.weight_zero = weights->zero;
  made.bias = chain.bias;
  return made;
}

// Makes node `index` the product, of this dtype, where that costs less than the ops apart.
void rewrite_where_cheaper(Rewriter& rewriter, size_t index, IntegerProduct product, DType dtype, double apart,
                           const std::string& name, Context& context, Device& device) {
  product.dtype = dtype;
  product.attributes.set(attr::dtype, std::string(name_of(dtype)));
  const bool constant = rewriter.is_constant(product.weight);
  if (constant) centre_weights(rewriter, context, product, index);
  const ZeroPointCost cost = zero_point_cost(rewriter, context, device, product);
  if (cost.ms >= apart) return;
  if (!constant) centre_weights(rewriter, context, product, index);
  const bool by_sums = zero_point_cost(rewriter, context, device, product).by_sums;
  rewrite_as(rewriter, context, index, product, by_sums, name);
}

// The product of floats, with the op that makes them of x's integers where nothing else reads those.
double cost_of_reals(Rewriter& rewriter, size_t index, Context& context, Device& device) {
  const ValueId x = rewriter.input(rewriter.node(index), 0);
  const int maker = rewriter.sole_maker(x);
  return cost_of(context, device, rewriter.op(index)) +
         (maker < 0 ? 0 : cost_of(context, device, rewriter.op(size_t(maker))));
}

void quantize_product_at(Rewriter& rewriter, size_t index, Context& context, Device& device) {
  const Node& root = rewriter.node(index);
  if (!is_quantize(root)) return;
  const auto to = quantization_of(rewriter, root);
  const auto chain = to ? chain_before(rewriter, rewriter.input(root, 0)) : std::nullopt;
  auto product = chain ? integer_product_of(rewriter, *chain) : std::nullopt;
  if (!product) return;
  product->y_scale = to->scale, product->y_zero = to->zero;
  const double apart =
      cost_of_reals(rewriter, chain->product.index, context, device) + cost_of(context, device, rewriter.op(index));
  rewrite_where_cheaper(rewriter, index, *product, rewriter.desc(root.outputs[0]).dtype, apart,
                        rewriter.node(chain->product.index).name, context, device);
}

// A product of quantised data and constant weights whose result stays real.
void real_product_at(Rewriter& rewriter, size_t index, Context& context, Device& device) {
  const auto chain = chain_of(rewriter, int(index));
  if (!chain || rewriter.desc(rewriter.node(index).outputs[0]).dtype != DType::f32) return;
  const auto product = integer_product_of(rewriter, *chain);
  if (!product || !rewriter.is_constant(product->weight)) return;
  rewrite_where_cheaper(rewriter, index, *product, DType::f32, cost_of_reals(rewriter, index, context, device),
                        rewriter.node(index).name, context, device);
}

}  // namespace

Pass quantize_products(Device* device) {
  return {"quantize_products",
          "Makes a convolution or matrix product of dequantised tensors, with the functions behind it and the "
          "quantize_linear of its result, if there is one, the product of the integers, where the device has a kernel "
          "that costs less.  Sums are exact; they are rounded as before, but for the rounding of f32 before it.",
          [device](Graph& graph, Context& context) {
            if (!device) return 0;
            const int rounded = sweep(graph, [&](Rewriter& rewriter, size_t index) {
              quantize_product_at(rewriter, index, context, *device);
            });
            graph.tidy();
            return rounded + sweep(graph, [&](Rewriter& rewriter, size_t index) {
                     real_product_at(rewriter, index, context, *device);
                   });
          }};
}

}  // namespace pl::passes
