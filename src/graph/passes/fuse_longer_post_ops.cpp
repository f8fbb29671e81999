// fuse_longer_post_ops: a function, a sum or a product of two tensors behind an op's post-ops, in an order that not all
// kernels take, becomes one more of them, where a kernel of the device costs less with it than the ops cost apart.
#include "graph/passes/costs.h"
#include "graph/passes/passes.h"
#include "graph/passes/post_op_fusion.h"

namespace pl::passes {
namespace {

bool costs_less(Rewriter& rewriter, size_t index, const Fused& fused, Context& context, Device& device) {
  const PostOps list = list_of(rewriter, fused);
  const Node& first = rewriter.node(size_t(fused.before));
  // Functions of what is no product are fuse_pointwise's, a sum and a function behind it fuse_post_ops'.
  if ((!first.schema->products && !reads_inputs(fused.steps)) || are_fast(list)) return false;
  Attributes attributes = first.attributes;
  set_post_ops(attributes, list);
  const std::vector<TensorDesc> inputs = rewriter.plain_descs(fused.inputs);
  const double apart =
      cost_of(context, device, rewriter.op(size_t(fused.before))) + cost_of(context, device, rewriter.op(index));
  return cost_of(context, device, make_op(*first.schema, attributes, inputs)) < apart;
}

}  // namespace

Pass fuse_longer_post_ops(Device* device) {
  return {"fuse_longer_post_ops",
          "Makes a function, a sum or a product of two tensors one more post-op of the op before it, in any order (a "
          "sum behind an activation, the gate of a gated layer), where the device has a kernel that costs less with it "
          "than the ops cost apart.  Exact in f32; in narrower dtypes one rounding less.",
          [device](Graph& graph, Context& context) {
            if (!device) return 0;
            return fuse_post_ops(graph, [&](Rewriter& rewriter, size_t index, const Fused& fused) {
              return costs_less(rewriter, index, fused, context, *device);
            });
          }};
}

}  // namespace pl::passes
