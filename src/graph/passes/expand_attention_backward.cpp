// expand_attention_backward: attention's gradients become products and a softmax, for devices that have no kernel for
// them.
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "ops/attention.h"

namespace pl::passes {
namespace {

class NodeBuilder final : public Builder {
 public:
  NodeBuilder(Rewriter& rewriter, size_t before)
      : rewriter_(rewriter), before_(before), name_(rewriter.node(before).name) {}
  const TensorDesc& desc(Value value) const override { return rewriter_.desc(value); }
  std::vector<Value> add(const std::string& op, const Attributes& attributes,
                         const std::vector<Value>& inputs) override {
    return rewriter_.insert_all(before_, op, attributes, inputs, name_);
  }

 private:
  Rewriter& rewriter_;
  size_t before_;
  std::string name_;
};

void expand(Rewriter& rewriter, size_t index) {
  if (rewriter.node(index).schema->kind != "attention_backward") return;
  const Op op = rewriter.op(index);
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index)), outputs = rewriter.node(index).outputs;
  const ValueId mask = inputs.size() > 4 ? inputs[4] : kNoValue;
  NodeBuilder builder(rewriter, index);
  const AttentionGradients made =
      attention_gradients(builder, op, {inputs[0], inputs[1], inputs[2], mask, inputs[3]}, false);
  for (size_t k = 0; k < outputs.size(); ++k) rewriter.redirect(outputs[k], made[k]);
}

int run(Graph& graph, Context&) { return sweep(graph, expand); }

}  // namespace

Pass expand_attention_backward() {
  return {"expand_attention_backward",
          "Makes attention's gradients of products, a softmax and sums, with the scores as tensors.  Bound: rounding.",
          run};
}

}  // namespace pl::passes
