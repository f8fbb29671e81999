// fuse_post_ops: functions of an op's result, and sums of it and another tensor, become post-ops of that op, where the
// fast kernels of all providers take the list.
#include "graph/passes/passes.h"
#include "graph/passes/post_op_fusion.h"

namespace pl::passes {

Pass fuse_post_ops() {
  return {
      "fuse_post_ops",
      "Makes an elementwise function a post-op of the op before it (convolutions, linear, matmul, arithmetic of two "
      "tensors, batch norms), and a tensor that is added to the result of a convolution, linear, matmul or "
      "batch norm its residual, if shapes are equal and nothing else uses that result.  Exact in f32 but "
      "for the order of additions; in narrower dtypes one rounding less.",
      [](Graph& graph, Context&) {
        return fuse_post_ops(
            graph, [](Rewriter& rewriter, size_t, const Fused& fused) { return are_fast(list_of(rewriter, fused)); });
      }};
}

}  // namespace pl::passes
