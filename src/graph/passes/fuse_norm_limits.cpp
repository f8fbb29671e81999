// fuse_norm_limits: the gradient of a rectifier behind batch_norm_training becomes limits of the norm's gradient.
//
// In a graph that trains the rectifier's gradient reads which results it limited, and only the norm's gradient reads
// what it gives.  That one tells by x what was limited.  The rectifier is the norm's post-op by then, but where its
// gradient reads its argument: both are found here.
#include <string>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "ops/activation.h"
#include "ops/normalization.h"

namespace pl::passes {
namespace {

// Whether this pointwise op passes its input 1 on where input 0, the argument or the result, lies between the limits.
bool is_slope(const Op& op, const Limits& limits) {
  const std::string& text = op.attributes[attr::expressions];
  if (text == slope_by_result("relu", 0)) return limits.low == 0 && limits.high == kInfinity;
  if (text == slope_by_result("relu6", 0)) return limits.low == 0 && limits.high == 6;
  return text == slope_by_argument("clip") &&
         op.attributes[attr::scalars] == std::vector<double>{limits.low, limits.high};
}

void fuse_norm_limits_at(Rewriter& rewriter, size_t index, const std::vector<std::vector<int32_t>>& consumers) {
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
  if (read.size() != 2) return;
  const auto limit = [&](const Limits& limits) {
    Attributes attributes = gradient.attributes;
    limits.set(attributes);
    const std::string name = gradient.name;
    rewriter.rewrite(index, "batch_norm_backward", attributes,
                     {inputs[0], read[1], inputs[2], inputs[3], inputs[4], bias}, name);
  };
  const PostOps& post_ops = rewriter.post_ops(size_t(norm));
  if (!post_ops.empty()) {
    const auto limits = post_ops.size() == 1 ? Limits::of(post_ops[0]) : std::nullopt;
    if (limits && read[0] == y && is_slope(rewriter.op(size_t(slope)), *limits)) limit(*limits);
    return;
  }
  // The rectifier is the only one to read y beside its gradient.
  if (read[0] != y || rewriter.uses(y) != 2) return;
  for (int32_t user : consumers[size_t(y)]) {
    if (!rewriter.live(size_t(user)) || !applies_function(rewriter.node(size_t(user)))) continue;
    const PostOp function = function_of(rewriter.op(size_t(user)));
    const auto limits = Limits::of(function);
    if (!limits || !is_slope(rewriter.op(size_t(slope)), *limits)) continue;
    const ValueId result = rewriter.node(size_t(user)).outputs[0];
    limit(*limits);
    Attributes attributes = forward.attributes;
    append_post_ops(attributes, {function});
    rewriter.rewrite(size_t(norm), "batch_norm_training", attributes, rewriter.inputs(forward));
    rewriter.redirect(result, y);
    return;
  }
}

int run_fuse_norm_limits(Graph& graph, Context&) {
  const std::vector<std::vector<int32_t>> consumers = graph.consumers();
  return sweep(graph, [&](Rewriter& rewriter, size_t index) { fuse_norm_limits_at(rewriter, index, consumers); });
}

}  // namespace

Pass fuse_norm_limits() {
  return {"fuse_norm_limits",
          "In graphs that train: the gradient of relu, relu6 or clip behind batch_norm_training becomes limits of "
          "batch_norm_backward, if nothing else uses what is between them.  Exact in f32, but "
          "for results within rounding of a limit, whose gradient may or may not count; in narrower dtypes one "
          "rounding less.",
          run_fuse_norm_limits};
}

}  // namespace pl::passes
