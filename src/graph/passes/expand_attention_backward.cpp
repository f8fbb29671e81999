// expand_attention_backward: attention's gradients become products and a softmax, where a device has no kernel for
// them.
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
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
  const Op op = rewriter.op(index);
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index)), outputs = rewriter.node(index).outputs;
  const ValueId mask = inputs.size() > 4 ? inputs[4] : kNoValue;
  NodeBuilder builder(rewriter, index);
  const AttentionGradients made =
      attention_gradients(builder, op, {inputs[0], inputs[1], inputs[2], mask, inputs[3]}, false);
  for (size_t k = 0; k < outputs.size(); ++k) rewriter.redirect(outputs[k], made[k]);
}

bool has_kernel(Context& context, Device& device, const Op& op) {
  return !context.catalog().entry(op, device)->ways.empty();
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
