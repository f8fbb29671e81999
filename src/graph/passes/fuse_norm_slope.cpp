// fuse_norm_slope: the gradient of a function behind batch_norm_training becomes part of the norm's gradient.
//
// In a graph that trains, the function's gradient multiplies by the slope at its argument or at its result, and only the
// norm's gradient reads the product.  That one computes the argument again from x.  Where the slope reads the result,
// the function is the norm's post-op by then; where it reads the argument, it becomes one here.
#include <string>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "ops/activation.h"

namespace pl::passes {
namespace {

// Whether this pointwise op multiplies its input 1 by the function's slope at input 0.
bool is_slope(const Op& op, const PostOp& function, bool by_result) {
  const std::string expected =
      by_result ? slope_by_result(function.name, function.alpha()) : slope_by_argument(function.name);
  if (expected.empty() || op.attributes[attr::expressions] != expected) return false;
  const std::vector<double>& scalars = op.attributes[attr::scalars];
  const auto scalar = [&](size_t i) { return i < scalars.size() ? scalars[i] : 0; };
  return function.parameters.empty() || (scalar(0) == function.alpha() && scalar(1) == function.beta());
}

void fuse_norm_slope_at(Rewriter& rewriter, size_t index, const std::vector<std::vector<int32_t>>& consumers) {
  const Node& gradient = rewriter.node(index);
  if (!is_batch_norm_backward(gradient) || gradient.inputs.size() > 5) return;
  const std::vector<ValueId> inputs = rewriter.inputs(gradient);
  const int norm = rewriter.maker(inputs[2]), slope = sole_maker(rewriter, inputs[1], is_pointwise);
  if (norm < 0 || slope < 0) return;
  const Node& forward = rewriter.node(size_t(norm));
  if (!is_batch_norm_training(forward)) return;
  if (forward.outputs[1] != inputs[2] || forward.outputs[2] != inputs[3] || rewriter.input(forward, 0) != inputs[0] ||
      rewriter.input(forward, 1) != inputs[4])
    return;
  const ValueId y = forward.outputs[0], bias = rewriter.input(forward, 2);
  const std::vector<ValueId> read = rewriter.inputs(rewriter.node(size_t(slope)));
  if (read.size() != 2 || read[0] != y || rewriter.shape(read[1]) != rewriter.shape(y)) return;  // not one that repeats
  const auto take_slope = [&](const PostOp& function) {
    Attributes attributes = gradient.attributes;
    attributes.set(attr::activation, function.name);
    if (function.parameters.size() > 0) attributes.set(attr::activation_alpha, function.alpha());
    if (function.parameters.size() > 1) attributes.set(attr::activation_beta, function.beta());
    const std::string name = gradient.name;
    rewriter.rewrite(index, "batch_norm_backward", attributes,
                     {inputs[0], read[1], inputs[2], inputs[3], inputs[4], bias}, name);
  };
  const PostOps& post_ops = rewriter.post_ops(size_t(norm));
  if (!post_ops.empty()) {
    const bool function = post_ops.size() == 1 && post_ops[0].kind == PostOp::Kind::function;
    if (function && is_slope(rewriter.op(size_t(slope)), post_ops[0], true)) take_slope(post_ops[0]);
    return;
  }
  if (rewriter.uses(y) != 2) return;  // something else reads what lies between
  for (int32_t user : consumers[size_t(y)]) {
    if (!rewriter.live(size_t(user)) || !applies_function(rewriter.node(size_t(user)))) continue;
    const PostOp function = function_of(rewriter.op(size_t(user)));
    if (!is_slope(rewriter.op(size_t(slope)), function, false)) continue;
    const ValueId result = rewriter.node(size_t(user)).outputs[0];
    take_slope(function);
    Attributes attributes = forward.attributes;
    append_post_ops(attributes, {function});
    rewriter.rewrite(size_t(norm), "batch_norm_training", attributes, rewriter.inputs(forward));
    rewriter.redirect(result, y);
    return;
  }
}

int run_fuse_norm_slope(Graph& graph, Context&) {
  const std::vector<std::vector<int32_t>> consumers = graph.consumers();
  return sweep(graph, [&](Rewriter& rewriter, size_t index) { fuse_norm_slope_at(rewriter, index, consumers); });
}

}  // namespace

Pass fuse_norm_slope() {
  return {"fuse_norm_slope",
          "In graphs that train: a function behind batch_norm_training, and its gradient, become parts of the norm and "
          "of batch_norm_backward, if nothing else uses what is between them.  Exact in f32, but for results within "
          "rounding of a place where the slope jumps; in narrower dtypes one rounding less.",
          run_fuse_norm_slope};
}

}  // namespace pl::passes
