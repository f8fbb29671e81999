// unpack_weights: layers whose weights are numbers of a few bits take floats, where a device has no kernel for them.
#include "graph/passes/node_builder.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "ops/linear_nbits.h"

namespace pl::passes {

Pass unpack_weights(Device* device) {
  return {
      "unpack_weights",
      "linear_nbits(x, w, scale, zero_point) -> linear(x, floats), where the device has no kernel for it; floats of "
      "constants are constants.  Bound: rounding.",
      [device](Graph& graph, Context& context) {
        return sweep(graph, [&](Rewriter& rewriter, size_t index) {
          if (!is_linear_nbits(rewriter.node(index))) return;
          const Op op = rewriter.op(index);
          if (!device || has_kernel(context, *device, op)) return;
          const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index));
          const auto input = [&](size_t i) { return i < inputs.size() ? inputs[i] : kNoValue; };
          NodeBuilder builder(rewriter, index);
          const UnpackedWeight made = unpacked_weight(builder, op, input(1), input(2), input(3));
          rewriter.rewrite(index, "linear", {}, {input(0), made.weight, input(4)});
        });
      }};
}

}  // namespace pl::passes
