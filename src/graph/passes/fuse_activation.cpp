// fuse_activation: an elementwise function becomes the `activation` of the op that makes its argument.
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "ops/activation.h"

namespace pl::passes {
namespace {

int run(Graph& graph, Context&) {
  return sweep(graph, [](Rewriter& rewriter, size_t index) {
    const Node& node = rewriter.node(index);
    if (!applies_function(node)) return;
    const ValueId x = rewriter.input(node, 0);
    const int before = rewriter.maker(x);
    if (before < 0 || rewriter.uses(x) != 1 || rewriter.has_activation(size_t(before))) return;
    const Node& first = rewriter.node(size_t(before));
    if (!takes_attribute(*first.schema, attr::activation)) return;
    const Activation activation = activation_of(rewriter.op(index));
    // Others would leave a convolution to a slow implementation.
    if (!find_unary_function(activation.function)->is(unary::kPostOp)) return;
    Attributes attributes = first.attributes;
    set_activation(attributes, activation);
    const std::string schema = first.schema->name, name = first.name;
    rewriter.rewrite(index, schema, attributes, rewriter.inputs(first), name);
  });
}

}  // namespace

Pass fuse_activation() {
  return {"fuse_activation",
          "Makes an elementwise function the activation of the op before it (convolutions, linear, matmul, arithmetic "
          "of two tensors, batch_norm), if nothing else uses that op's result.  Exact in f32; in narrower dtypes one "
          "rounding less.",
          run};
}

}  // namespace pl::passes
