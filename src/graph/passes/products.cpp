#include "graph/passes/products.h"

#include <algorithm>

#include "graph/passes/constants.h"
#include "ops/view.h"

namespace pl::passes {
namespace {

bool is_all(const std::vector<double>& values, double expected) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == expected; });
}

// The bias as numbers; zeros where there is none.
std::vector<double> bias_of(Rewriter& rewriter, const Product& product) {
  const ValueId bias = rewriter.input(rewriter.node(product.index), kBias);
  if (bias == kNoValue) return std::vector<double>(size_t(product.output_channels), 0);
  return numbers_of(rewriter.constant(bias));
}

bool is_absent_or_constant(Rewriter& rewriter, ValueId id) { return id == kNoValue || rewriter.is_constant(id); }

// Whether the product's dtype holds a bias.
bool holds_bias(Rewriter& rewriter, const Product& product, const std::vector<double>& bias) {
  const DType dtype = rewriter.desc(rewriter.node(product.index).outputs[0]).dtype;
  return std::all_of(bias.begin(), bias.end(), [&](double value) { return holds(dtype, value); });
}

// The inputs of the product with another weight and bias.
std::vector<ValueId> with_constants(Rewriter& rewriter, Context& context, const Product& product, TensorRef weight,
                                    const std::vector<double>& bias) {
  const Node& node = rewriter.node(product.index);
  std::vector<ValueId> inputs = rewriter.inputs(node);
  inputs.resize(std::max(inputs.size(), kBias + 1), kNoValue);
  if (weight) inputs[kWeight] = rewriter.add_constant(node.name + ".weight", std::move(weight));
  if (inputs[kBias] != kNoValue || !is_all(bias, 0)) {
    const DType dtype = rewriter.desc(inputs[0]).dtype;
    inputs[kBias] =
        rewriter.add_constant(node.name + ".bias", tensor_of(context, dtype, {product.output_channels}, bias));
  }
  return inputs;
}

}  // namespace

std::optional<Product> product_of(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const Weighting& weighting = node.schema->weighting;
  if (!weighting) return std::nullopt;
  Product product;
  product.index = index;
  product.matrices = weighting.order == Weighting::Order::matrices;
  product.transposed = weighting.order == Weighting::Order::inputs_first;
  if (product.matrices && rewriter.shape(node.inputs[kWeight]).size() < 2) return std::nullopt;
  const Dims &x = rewriter.shape(node.inputs[0]), &y = rewriter.shape(node.outputs[0]);
  product.output_axis = weighting.channels < 0 ? y.size() - 1 : weighting.channels;
  product.input_axis = weighting.channels < 0 ? x.size() - 1 : weighting.channels;
  if (takes_attribute(*node.schema, attr::groups)) {
    const Op op = rewriter.op(index);
    product.groups = op.attributes[attr::groups];
    const std::vector<int64_t>& padding = op.attributes[attr::padding];
    const auto not_zero = [](int64_t value) { return value != 0; };
    product.padded = product.transposed || std::any_of(padding.begin(), padding.end(), not_zero);
  }
  product.output_channels = y[product.output_axis];
  product.input_channels = x[product.input_axis];
  return product;
}

ValueId turned_matrix(Rewriter& rewriter, size_t before, ValueId matrix) {
  const std::string name = rewriter.graph().value(matrix).name + ".transposed";
  if (!rewriter.is_constant(matrix))
    return rewriter.insert(before, "permute", Attributes{{attr::dims, std::vector<int64_t>{1, 0}}}, {matrix}, name);
  const Tensor& old = rewriter.constant(matrix);
  return rewriter.add_constant(name, std::make_shared<Tensor>(view_permuted(old.desc(), {1, 0}), old.buffer()));
}

std::optional<PostOp> free_operand(const Rewriter& rewriter, size_t index, PostOp::Kind kind) {
  const PostOps& used = rewriter.post_ops(index);
  for (const PostOp& operand : rewriter.node(index).schema->post_ops.operands)
    if (operand.kind == kind && std::find(used.begin(), used.end(), operand) == used.end()) return operand;
  return std::nullopt;
}

bool takes_output_affine(Rewriter& rewriter, const Product& product, bool scales) {
  const Node& node = rewriter.node(product.index);
  if (!only_sums(rewriter.post_ops(product.index))) return false;
  if (!is_absent_or_constant(rewriter, rewriter.input(node, kBias))) return false;
  if (!scales) return true;
  return !product.matrices && rewriter.is_constant(rewriter.input(node, kWeight)) &&
         !rewriter.has_post_ops(product.index);
}

bool takes_operands_of(const Rewriter& rewriter, const Product& product, size_t root) {
  const PostOps &own = rewriter.post_ops(product.index), &list = rewriter.post_ops(root);
  const Schema& schema = *rewriter.node(product.index).schema;
  return std::all_of(list.begin(), list.end(), [&](const PostOp& step) {
    return !step.reads_input() || (takes_post_op(schema, step) && std::find(own.begin(), own.end(), step) == own.end());
  });
}

bool fold_output_affine(Rewriter& rewriter, Context& context, const Product& product, size_t root,
                        const std::vector<double>& scale, const std::vector<double>& shift, int view) {
  const Node& node = rewriter.node(product.index);
  std::vector<double> bias = bias_of(rewriter, product);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = bias[i] * (scale.empty() ? 1 : scale[i]) + shift[i];
  if (!holds_bias(rewriter, product, bias)) return false;
  TensorRef weight;
  if (!scale.empty() && !is_all(scale, 1)) {
    const Tensor& old = rewriter.constant(rewriter.input(node, kWeight));
    if (product.transposed) {
      const int64_t inputs = product.input_channels / product.groups, outputs = old.desc().shape[1];
      weight = scaled(context, old, [&](int64_t i, int64_t o) { return scale[size_t(i / inputs * outputs + o)]; });
    } else {
      weight = scaled(context, old, [&](int64_t o, int64_t) { return scale[size_t(o)]; });
    }
    if (!weight) return false;
  }
  Attributes attributes = node.attributes;
  append_post_ops(attributes, rewriter.post_ops(root));
  std::vector<ValueId> inputs = with_constants(rewriter, context, product, weight, bias);
  for (const PostOp& step : rewriter.post_ops(root)) {
    if (!step.reads_input()) continue;
    const size_t place = size_t(operand_of(*node.schema, step));
    inputs.resize(std::max(inputs.size(), place + 1), kNoValue);
    inputs[place] = rewriter.input(rewriter.node(root), size_t(operand_of(*rewriter.node(root).schema, step)));
  }
  const std::string schema = node.schema->name, name = node.name;
  if (view < 0) {
    rewriter.rewrite(root, schema, attributes, inputs, name);
    return true;
  }
  const Node& between = rewriter.node(size_t(view));
  const std::string renaming = between.schema->name, name_of_view = between.name;
  const Attributes attributes_of_view = between.attributes;
  std::vector<ValueId> inputs_of_view = rewriter.inputs(between);
  inputs_of_view[0] = rewriter.insert(root, schema, attributes, inputs, name);
  rewriter.rewrite(root, renaming, attributes_of_view, inputs_of_view, name_of_view);
  return true;
}

bool fold_input_affine(Rewriter& rewriter, Context& context, const Product& product, ValueId x,
                       const std::vector<double>& scale, const std::vector<double>& shift) {
  const Node& node = rewriter.node(product.index);
  const ValueId weight_id = rewriter.input(node, kWeight);
  if (product.matrices || !rewriter.is_constant(weight_id)) return false;
  const bool shifts = !is_all(shift, 0);
  if (shifts && (product.padded || !is_absent_or_constant(rewriter, rewriter.input(node, kBias)))) return false;
  const Tensor& old = rewriter.constant(weight_id);
  const Dims& shape = old.desc().shape;
  const int64_t inputs = product.input_channels / product.groups, outputs = product.output_channels / product.groups;
  // The channel of x that weight[i, j] multiplies.
  const auto input_of = [&](int64_t i, int64_t j) {
    return product.transposed ? size_t(i) : size_t(i / outputs * inputs + j);
  };
  std::vector<double> bias = bias_of(rewriter, product);
  if (shifts) {
    const std::vector<double> weights = numbers_of(old);
    const int64_t inner = shape[0] && shape[1] ? int64_t(weights.size()) / (shape[0] * shape[1]) : 0;
    for (int64_t o = 0; o < shape[0]; ++o)
      for (int64_t i = 0; i < shape[1]; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) sum += weights[size_t((o * shape[1] + i) * inner + k)];
        bias[size_t(o)] += sum * shift[input_of(o, i)];
      }
  }
  if (!holds_bias(rewriter, product, bias)) return false;
  const bool scales = !is_all(scale, 1);
  const auto factor = [&](int64_t i, int64_t j) { return scale[input_of(i, j)]; };
  const TensorRef weight = scales ? scaled(context, old, factor) : nullptr;
  if (scales && !weight) return false;
  const Attributes attributes = node.attributes;
  const std::string schema = node.schema->name;
  std::vector<ValueId> changed;
  if (shifts) {
    changed = with_constants(rewriter, context, product, weight, bias);
  } else {
    changed = rewriter.inputs(node);
    if (weight) changed[kWeight] = rewriter.add_constant(node.name + ".weight", weight);
  }
  changed[0] = x;
  rewriter.rewrite(product.index, schema, attributes, changed);
  return true;
}

}  // namespace pl::passes
