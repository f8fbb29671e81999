// expand_squeeze_excite: squeeze_excite and its gradients become their parts, where a device has no kernels for them.
#include "graph/named_ops.h"
#include "graph/passes/node_builder.h"
#include "graph/passes/passes.h"
#include "ops/squeeze_excite.h"

namespace pl::passes {
namespace {

void expand_squeeze_excite_at(Rewriter& rewriter, size_t index, bool backward) {
  const Op op = rewriter.op(index);
  std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index));
  const std::vector<ValueId> outputs = rewriter.node(index).outputs;
  NodeBuilder builder(rewriter, index);
  if (!backward) return rewriter.redirect(outputs[0], squeeze_excite_by_parts(builder, op, inputs));
  const ValueId grad = inputs[1];
  inputs.erase(inputs.begin() + 1);
  const auto made = squeeze_excite_gradients(builder, op, inputs, grad);
  for (size_t k = 0; k < outputs.size(); ++k) rewriter.redirect(outputs[k], made[k]);
}

}  // namespace

Pass expand_squeeze_excite(Device* device) {
  return {"expand_squeeze_excite",
          "Makes squeeze_excite and its gradients of a mean, two products and elementwise ops, on devices where these "
          "cost no launches, and where the device has no kernel for it.  Bound: rounding.",
          [device](Graph& graph, Context& context) {
            return sweep(graph, [&](Rewriter& rewriter, size_t index) {
              const bool backward = is_squeeze_excite_backward(rewriter.node(index));
              if (!backward && !is_squeeze_excite(rewriter.node(index))) return;
              if (device && device->traits().gpu && has_kernel(context, *device, rewriter.op(index))) return;
              expand_squeeze_excite_at(rewriter, index, backward);
            });
          }};
}

}  // namespace pl::passes
