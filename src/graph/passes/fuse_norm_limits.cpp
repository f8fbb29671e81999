// fuse_norm_limits: a rectifier behind batch_norm_training, and behind its gradient, become limits of the norm.
//
// In a graph that trains the rectifier's gradient reads which results it limited, and only the norm's gradient reads
// what it gives.  Both are found from the norm's gradient; that one tells by x what was limited.
#include <limits>
#include <string>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "ops/activation.h"
#include "ops/normalization.h"

namespace pl::passes {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a rectifier limits its argument to.
std::optional<Limits> limits_of(const Op& op) {
  const auto range = range_of(activation_of(op));
  return range && range->first <= range->second ? std::optional(Limits{range->first, range->second}) : std::nullopt;
}

// Whether this pointwise op passes its input 1 on where input 0, the argument or the result, lies between the limits.
bool is_slope(const Op& op, const Limits& limits) {
  const std::string& text = op.attributes[attr::expressions];
  if (text == slope_by_result("relu", 0)) return limits.low == 0 && limits.high == kInfinity;
  if (text == slope_by_result("relu6", 0)) return limits.low == 0 && limits.high == 6;
  return text == slope_by_argument("clip") &&
         op.attributes[attr::scalars] == std::vector<double>{limits.low, limits.high};
}

void fuse(Rewriter& rewriter, size_t index, const std::vector<std::vector<int32_t>>& consumers) {
  const Node& gradient = rewriter.node(index);
  if (!is_batch_norm_backward(gradient) || gradient.inputs.size() > 5) return;
  const std::vector<ValueId> inputs = rewriter.inputs(gradient);
  const int norm = rewriter.maker(inputs[2]), slope = sole_maker(rewriter, inputs[1], is_pointwise);
  if (norm < 0 || slope < 0) return;
  const Node& forward = rewriter.node(size_t(norm));
  if (!is_batch_norm_training(forward) || Limits::of(rewriter.op(size_t(norm)))) return;
  if (forward.outputs[1] != inputs[2] || forward.outputs[2] != inputs[3] || rewriter.input(forward, 0) != inputs[0] ||
      rewriter.input(forward, 1) != inputs[4])
    return;
  const ValueId y = forward.outputs[0];
  // The rectifier is the only one to read y, but for its gradient if that goes by the argument.
  const Node& by = rewriter.node(size_t(slope));
  const std::vector<ValueId> read = rewriter.inputs(by);
  for (int32_t user : consumers[size_t(y)]) {
    if (!rewriter.live(size_t(user)) || !applies_function(rewriter.node(size_t(user)))) continue;
    const Node& limiting = rewriter.node(size_t(user));
    const auto limits = limits_of(rewriter.op(size_t(user)));
    if (!limits || !is_slope(rewriter.op(size_t(slope)), *limits)) continue;
    const ValueId result = limiting.outputs[0];
    if (read.size() != 2 || (read[0] != y && read[0] != result) || rewriter.uses(y) != (read[0] == y ? 2 : 1)) continue;
    Attributes attributes = forward.attributes, of_gradient = gradient.attributes;
    limits->set(attributes);
    limits->set(of_gradient);
    const ValueId bias = rewriter.input(forward, 2);
    const std::string name = limiting.name, name_of_gradient = gradient.name;
    rewriter.rewrite(index, "batch_norm_backward", of_gradient,
                     {inputs[0], read[1], inputs[2], inputs[3], inputs[4], bias}, name_of_gradient);
    rewriter.rewrite(size_t(norm), "batch_norm_training", attributes, rewriter.inputs(forward), name);
    rewriter.redirect(result, y);
    return;
  }
}

int run(Graph& graph, Context&) {
  const std::vector<std::vector<int32_t>> consumers = graph.consumers();
  return sweep(graph, [&](Rewriter& rewriter, size_t index) { fuse(rewriter, index, consumers); });
}

}  // namespace

Pass fuse_norm_limits() {
  return {"fuse_norm_limits",
          "In graphs that train: relu, relu6 or clip behind batch_norm_training, and its gradient before "
          "batch_norm_backward, become their limits, if nothing else uses what is between them.  Exact in f32, but "
          "for results within rounding of a limit, whose gradient may or may not count; in narrower dtypes one "
          "rounding less.",
          run};
}

}  // namespace pl::passes
