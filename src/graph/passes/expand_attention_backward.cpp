// expand_attention_backward: attention's gradients become products and a softmax, where a device has no kernel for
// them.
#include "graph/passes/node_builder.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "ops/attention.h"

namespace pl::passes {
namespace {

void expand(Rewriter& rewriter, size_t index) {
  const Op op = rewriter.op(index);
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index)), outputs = rewriter.node(index).outputs;
  const ValueId mask = inputs.size() > 4 ? inputs[4] : kNoValue;
  NodeBuilder builder(rewriter, index);
  const AttentionGradients made =
      attention_gradients(builder, op, {inputs[0], inputs[1], inputs[2], mask, inputs[3]}, false);
  for (size_t k = 0; k < outputs.size(); ++k) rewriter.redirect(outputs[k], made[k]);
}

}  // namespace

Pass expand_attention_backward(Device* device) {
  return {
      "expand_attention_backward",
      "Makes attention's gradients of products, a softmax and sums, with the scores as tensors, where the device has "
      "no kernel for them.  Bound: rounding.",
      [device](Graph& graph, Context& context) {
        return sweep(graph, [&](Rewriter& rewriter, size_t index) {
          if (!is_attention_backward(rewriter.node(index))) return;
          if (!device || !has_kernel(context, *device, rewriter.op(index))) expand(rewriter, index);
        });
      }};
}

}  // namespace pl::passes
