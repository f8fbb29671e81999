// fuse_bias: products with constant matrices become linear ops, and constants added to their results biases.
// fuse_parameters: the same of parameters, before gradients are taken.
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"

namespace pl::passes {
namespace {

// matmul(a, matrix) is linear with the matrix turned, of constant matrices or of parameters.
void as_linear(Rewriter& rewriter, size_t index, bool of_parameters) {
  const Node& node = rewriter.node(index);
  ValueId b = rewriter.input(node, 1);
  const Op op = rewriter.op(index);
  bool transposed = op.attributes[attr::transpose_b];
  if (of_parameters && made_by(rewriter, b, is_permute) && rewriter.shape(b).size() == 2) {
    const size_t turn = size_t(rewriter.maker(b));
    if (rewriter.op(turn).attributes[attr::dims][0] != 0) transposed = !transposed;
    b = rewriter.input(rewriter.node(turn), 0);
  }
  const bool takes =
      of_parameters ? rewriter.is_parameter(b) && rewriter.shape(node.outputs[0]).size() >= 2 : rewriter.is_constant(b);
  if (!takes || rewriter.shape(b).size() != 2) return;
  if (op.attributes[attr::transpose_a]) return;
  Attributes attributes;
  set_post_ops(attributes, rewriter.post_ops(index));
  std::vector<ValueId> inputs = rewriter.inputs(node);
  inputs[kWeight] = transposed ? b : turned_matrix(rewriter, index, b);
  rewriter.rewrite(index, "linear", attributes, inputs);
}

// product + constant, constant + product, product - constant.
void add_bias(Rewriter& rewriter, Context& context, size_t index) {
  const Node& node = rewriter.node(index);
  const bool adds = operation_of(node) == Operation::sum;
  if (!adds && operation_of(node) != Operation::difference) return;
  for (size_t k = 0; k < (adds ? 2 : 1); ++k) {
    const ValueId y = rewriter.input(node, k), added = rewriter.input(node, 1 - k);
    const int before = rewriter.maker(y);
    if (before < 0 || rewriter.uses(y) != 1 || !rewriter.is_constant(added)) continue;
    const auto product = product_of(rewriter, size_t(before));
    if (!product || !takes_output_affine(rewriter, *product, false)) continue;
    auto shift = along_axis(rewriter, added, rewriter.shape(y), product->output_axis);
    if (!shift) continue;
    if (!adds)
      for (double& value : *shift) value = -value;
    if (fold_output_affine(rewriter, context, *product, index, {}, *shift)) return;
  }
}

// product + parameter: what changes between runs is one element for each channel, along the last dimension.
void add_parameter(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (operation_of(node) != Operation::sum) return;
  for (size_t k = 0; k < 2; ++k) {
    const ValueId y = rewriter.input(node, k), added = rewriter.input(node, 1 - k);
    const int before = rewriter.maker(y);
    if (before < 0 || rewriter.uses(y) != 1 || rewriter.is_constant(added) || !rewriter.is_given(added)) continue;
    const auto product = product_of(rewriter, size_t(before));
    if (!product || product->output_axis + 1 != rewriter.shape(y).size() ||
        rewriter.shape(added) != Dims{product->output_channels} || rewriter.desc(added).dtype != rewriter.desc(y).dtype)
      continue;
    const Node& made = rewriter.node(size_t(before));
    if (rewriter.input(made, kBias) != kNoValue || !only_sums(rewriter.post_ops(size_t(before)))) continue;
    std::vector<ValueId> inputs = rewriter.inputs(made);
    inputs.resize(std::max(inputs.size(), kBias + 1), kNoValue);
    inputs[kBias] = added;
    Attributes attributes = made.attributes;
    append_post_ops(attributes, rewriter.post_ops(index));
    const std::string schema = made.schema->name, name = made.name;
    return rewriter.rewrite(index, schema, attributes, inputs, name);
  }
}

int run_fuse_bias(Graph& graph, Context& context) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    if (is_matrix_product(rewriter.node(index))) return as_linear(rewriter, index, false);
    add_bias(rewriter, context, index);
    add_parameter(rewriter, index);
  });
}

int run_fuse_parameters(Graph& graph, Context&) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    if (is_matrix_product(rewriter.node(index))) return as_linear(rewriter, index, true);
    add_parameter(rewriter, index);
  });
}

}  // namespace

Pass fuse_parameters() {
  return {"fuse_parameters",
          "Turns matmul with a parameter into linear, and parameters added to results along the last dimension into "
          "biases.  A result changes by a rounding of its dtype.",
          run_fuse_parameters};
}

Pass fuse_bias() {
  return {"fuse_bias",
          "Turns matmul with a constant matrix into linear, and constants by channel added to convolutions, linear and "
          "matmul into their bias, parameters by the last dimension too.  A result changes by a rounding of its dtype.",
          run_fuse_bias};
}

}  // namespace pl::passes
