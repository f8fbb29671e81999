// quantize_products: a sum of products of dequantised tensors whose result is quantised is computed of the integers.
#include <algorithm>

#include "graph/named_ops.h"
#include "graph/passes/constants.h"
#include "graph/passes/costs.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"
#include "graph/passes/quantization.h"

namespace pl::passes {
namespace {

// The weights as integers: with one scale, or one for each output channel, and without zero points.
struct Weights {
  ValueId integers = kNoValue, scale = kNoValue;
};

std::optional<Weights> weights_of(Rewriter& rewriter, ValueId id, int channel_axis, int64_t channels) {
  const int maker = rewriter.maker(id);
  if (maker < 0 || !is_dequantize(rewriter.node(size_t(maker)))) return std::nullopt;
  const Node& node = rewriter.node(size_t(maker));
  const Weights weights{rewriter.input(node, 0), rewriter.input(node, 1)};
  const ValueId zero = rewriter.input(node, 2);
  if (rewriter.desc(weights.integers).dtype != DType::s8 || rewriter.desc(weights.scale).dtype != DType::f32)
    return std::nullopt;
  if (!rewriter.is_constant(weights.integers) || !rewriter.is_constant(weights.scale)) return std::nullopt;
  if (zero != kNoValue) {
    if (!rewriter.is_constant(zero)) return std::nullopt;
    const std::vector<double> values = numbers_of(rewriter.constant(zero));
    if (std::any_of(values.begin(), values.end(), [](double value) { return value != 0; })) return std::nullopt;
  }
  if (rewriter.desc(weights.scale).elements() == 1) return weights;
  const bool by_channel = rewriter.shape(weights.scale) == Dims{channels};
  const int axis = int(rewriter.op(size_t(maker)).attributes[attr::axis]);
  if (!by_channel || axis != channel_axis) return std::nullopt;
  return weights;
}

// What stands before a quantize_linear: a product, what is added by channel, functions of the result.
struct Chain {
  Product product;
  ValueId bias = kNoValue;
  PostOps post_ops;
};

std::optional<Chain> chain_before(Rewriter& rewriter, ValueId y) {
  Chain chain;
  int made = rewriter.sole_maker(y);
  for (; made >= 0 && applies_function(rewriter.node(size_t(made))) && !rewriter.has_post_ops(size_t(made));
       made = rewriter.sole_maker(y)) {
    chain.post_ops.insert(chain.post_ops.begin(), function_of(rewriter.op(size_t(made))));
    y = rewriter.input(rewriter.node(size_t(made)), 0);
  }
  if (made >= 0 && is_bare(rewriter, size_t(made), Operation::sum)) {
    const Node& sum = rewriter.node(size_t(made));
    const size_t k = rewriter.is_given(rewriter.input(sum, 0)) ? 1 : 0;
    chain.bias = rewriter.input(sum, 1 - k);
    made = rewriter.sole_maker(rewriter.input(sum, k));
  }
  if (made < 0 || rewriter.node(size_t(made)).schema->quantized_as.empty()) return std::nullopt;
  const auto product = product_of(rewriter, size_t(made));
  if (!product || product->transposed) return std::nullopt;
  chain.product = *product;
  const Node& node = rewriter.node(size_t(made));
  const ValueId own = rewriter.input(node, kBias);
  if (chain.bias != kNoValue) {
    // One number for each channel: as a vector that is broadcast along the last axis.
    const bool last = product->output_axis == rewriter.desc(node.outputs[0]).rank() - 1;
    if (own != kNoValue || !last || rewriter.shape(chain.bias) != Dims{product->output_channels}) return std::nullopt;
    if (rewriter.has_post_ops(size_t(made))) return std::nullopt;
  } else {
    chain.bias = own;
  }
  const PostOps& before = rewriter.post_ops(size_t(made));
  if (reads_inputs(before)) return std::nullopt;
  chain.post_ops.insert(chain.post_ops.begin(), before.begin(), before.end());
  return chain;
}

bool transposes(const Op& op, const Key<bool>& key) {
  return takes_attribute(*op.schema, key) && bool(op.attributes[key]);
}

void quantize_product_at(Rewriter& rewriter, size_t index, Context& context, Device& device) {
  const Node& root = rewriter.node(index);
  if (!is_quantize(root)) return;
  const auto to = quantization_of(rewriter, root);
  const auto chain = to ? chain_before(rewriter, rewriter.input(root, 0)) : std::nullopt;
  if (!chain) return;
  const Product& product = chain->product;
  const Node& node = rewriter.node(product.index);
  const Op op = rewriter.op(product.index);
  const auto x = quantized(rewriter, rewriter.input(node, 0));
  if (!x || transposes(op, attr::transpose_a) || rewriter.desc(x->integers).rank() < 2) return;
  // Matrices are (k, n) for integers.
  const bool conv = takes_attribute(*node.schema, attr::groups);
  const bool turn = !conv && (!product.matrices || transposes(op, attr::transpose_b));
  const int rank = rewriter.desc(rewriter.input(node, kWeight)).rank();
  const int axis = conv ? 0 : turn ? rank - 2 : rank - 1;
  const auto weights = weights_of(rewriter, rewriter.input(node, kWeight), axis, product.output_channels);
  if (!weights || (turn && rank != 2)) return;
  if (chain->bias != kNoValue && rewriter.desc(chain->bias).dtype != DType::f32) return;

  const Schema& schema = schema_of(node.schema->quantized_as);
  Attributes attributes;
  for (const auto& [name, value] : node.attributes)
    if (takes_attribute(schema, name)) attributes.set_value(name, value);
  set_post_ops(attributes, chain->post_ops);
  attributes.set(attr::dtype, std::string(name_of(rewriter.desc(root.outputs[0]).dtype)));
  const std::vector<ValueId> inputs{x->integers, weights->integers, x->by.scale, weights->scale, to->scale,
                                    x->by.zero,  kNoValue,          to->zero,    chain->bias};
  std::vector<TensorDesc> descs = rewriter.plain_descs(inputs);
  if (turn) descs[kWeight] = TensorDesc::dense(DType::s8, {op.in(kWeight).shape[1], op.in(kWeight).shape[0]});
  const double apart = cost_of(context, device, op) + cost_of(context, device, rewriter.op(index));
  if (cost_of(context, device, make_op(schema, attributes, descs)) >= apart) return;

  std::vector<ValueId> given = inputs;
  const std::string name = node.name;
  if (turn)
    given[kWeight] = rewriter.insert(index, "permute", Attributes{{attr::dims, std::vector<int64_t>{1, 0}}},
                                     {weights->integers}, name + ".weight");
  rewriter.rewrite(index, schema.name, attributes, given, name);
}

}  // namespace

Pass quantize_products(Device* device) {
  return {"quantize_products",
          "Makes a convolution or matrix product of dequantised tensors, with the functions behind it, whose result is "
          "quantised, the product of the integers, where the device has a kernel that costs less.  Sums are exact; "
          "they are rounded to 8 bits as before, but for the rounding of f32 before it.",
          [device](Graph& graph, Context& context) {
            if (!device) return 0;
            return sweep(graph, [&](Rewriter& rewriter, size_t index) {
              quantize_product_at(rewriter, index, context, *device);
            });
          }};
}

}  // namespace pl::passes
