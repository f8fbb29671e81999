// fold_constants: what depends on constants only is computed once.
#include <algorithm>

#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace pl::passes {
namespace {

// A result of more elements than its inputs together is kept as an op, unless it is small: where it only repeats them,
// which costs little, or where it is computed (masks and biases made of positions).  One of the same elements in a
// wider dtype is not: dequantised weights are used in each run.
constexpr size_t kSmallRepeats = 64 << 10, kSmallResult = 4 << 20;

void fold_constants_at(Rewriter& rewriter, Context& context, size_t index) {
  const Node& node = rewriter.node(index);
  if (node.inputs.empty()) return;
  int64_t before = 0, after = 0;
  size_t bytes = 0;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId id = rewriter.input(node, k);
    if (id == kNoValue) continue;
    if (!rewriter.is_constant(id)) return;
    before += rewriter.desc(id).elements();
  }
  for (ValueId id : node.outputs) {
    after += rewriter.desc(id).elements();
    bytes += rewriter.desc(id).size_bytes();
  }
  const bool repeats = node.schema->repeats || node.schema->view;
  if (after > before && bytes > (repeats ? kSmallRepeats : kSmallResult)) return;
  std::vector<TensorRef> inputs;
  std::vector<TensorDesc> descs;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId id = rewriter.input(node, k);
    inputs.push_back(id == kNoValue ? nullptr : plain_on_cpu(context, rewriter.graph().value(id).constant));
    descs.push_back(id == kNoValue ? TensorDesc() : inputs.back()->desc());
  }
  const std::vector<TensorRef> results = computed(context, make_op(*node.schema, node.attributes, descs), inputs);
  for (size_t k = 0; k < results.size(); ++k) {
    const ValueId constant = rewriter.add_constant(rewriter.graph().value(node.outputs[k]).name, results[k]);
    rewriter.redirect(node.outputs[k], constant);
  }
}

int run_fold_constants(Graph& graph, Context& context) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) { fold_constants_at(rewriter, context, index); });
}

}  // namespace

Pass fold_constants() {
  return {
      "fold_constants",
      "Computes once what depends on constants only, unless the result has more elements than the inputs and is over "
      "4 MiB, one that repeats them over 64 KiB.  As exact as the op.",
      run_fold_constants};
}

}  // namespace pl::passes
