// fuse_residual: the sum of a convolution, linear or matmul and another tensor is done by that op.
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"

namespace pl::passes {
namespace {

// The product that can take the other operand of node `index`, an add, as its residual: operand k.
bool takes(Rewriter& rewriter, size_t index, size_t k) {
  const Node& node = rewriter.node(index);
  const ValueId y = rewriter.input(node, k), other = rewriter.input(node, 1 - k);
  const int before = rewriter.maker(y);
  if (before < 0 || rewriter.uses(y) != 1 || rewriter.shape(y) != rewriter.shape(other)) return false;
  const Node& product = rewriter.node(size_t(before));
  return takes_input(*product.schema, "residual") && product_of(rewriter, size_t(before)) &&
         rewriter.input(product, kResidual) == kNoValue && !rewriter.has_activation(size_t(before));
}

int run(Graph& graph, Context&) {
  return sweep(graph, [](Rewriter& rewriter, size_t index) {
    const Node& node = rewriter.node(index);
    if (operation_of(node) != Operation::sum) return;
    const bool first = takes(rewriter, index, 0), second = takes(rewriter, index, 1);
    if (!first && !second) return;
    // The later one: the other operand then exists when it runs, wherever the order is changed.
    const bool use_first =
        first && (!second || rewriter.maker(rewriter.input(node, 0)) > rewriter.maker(rewriter.input(node, 1)));
    const ValueId y = rewriter.input(node, use_first ? 0 : 1), other = rewriter.input(node, use_first ? 1 : 0);
    const Node& product = rewriter.node(size_t(rewriter.maker(y)));
    std::vector<ValueId> inputs = rewriter.inputs(product);
    inputs.resize(kResidual + 1, kNoValue);
    inputs[kResidual] = other;
    Attributes attributes = product.attributes;
    copy_activation(node.attributes, attributes);
    const std::string schema = product.schema->name, name = product.name;
    rewriter.rewrite(index, schema, attributes, inputs, name);
  });
}

}  // namespace

Pass fuse_residual() {
  return {"fuse_residual",
          "Makes a tensor that is added to the result of a convolution, linear or matmul its residual, if shapes are "
          "equal and nothing else uses that result.  Exact in f32 but for the order of additions; in narrower dtypes "
          "one rounding less.",
          run};
}

}  // namespace pl::passes
