// expand_attention: attention and its gradients become products and a softmax, where a device has no kernel for them or
// none that is fast: of heads wider than what its work-items hold.
#include "graph/passes/costs.h"
#include "graph/passes/node_builder.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "ops/attention.h"

namespace pl::passes {
namespace {

constexpr size_t kMostScores = size_t(1) << 30;  // bytes
constexpr double kWorth = 4;  // how many times as much the op must cost: estimates of products are optimistic

// The mask, the seed and the sinks begin at `place`.
AttentionInputs inputs_of(const std::vector<ValueId>& inputs, size_t place) {
  const auto optional = [&](size_t at) { return inputs.size() > at ? inputs[at] : kNoValue; };
  return {inputs[0], inputs[1], inputs[2], optional(place), optional(place + 1), optional(place + 2)};
}

bool is_slower_than_parts(Context& context, Device& device, const Op& op) {
  const TensorDesc &q = op.in(0), &v = op.in(2);
  if (op.out().elements() == 0 || v.elements() == 0) return false;
  const int last = q.rank() - 1;
  Dims scores = q.shape, keys = q.shape, values = q.shape;
  scores[last] = keys[last - 1] = values[last - 1] = v.shape[last - 1];
  values[last] = v.shape[last];
  const auto wide = [](const Dims& shape) { return TensorDesc::dense(DType::f32, shape); };
  if (wide(scores).size_bytes() > kMostScores) return false;
  const Op first = make_op(schema_of("matmul"), Attributes{{attr::transpose_b, true}}, {wide(q.shape), wide(keys)});
  const Op second = make_op(schema_of("matmul"), {}, {wide(scores), wide(values)});
  const Op between = make_op(schema_of("softmax"), Attributes{{attr::dim, int64_t(last)}}, {wide(scores)});
  // What scales and masks the scores takes about as long as their softmax.
  const double parts =
      cost_of(context, device, first) + 2 * cost_of(context, device, between) + cost_of(context, device, second);
  return cost_of(context, device, op) > kWorth * parts;
}

void expand_forward(Rewriter& rewriter, size_t index) {
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index));
  const ValueId output = rewriter.node(index).outputs[0];
  const Op op = rewriter.op(index);
  NodeBuilder builder(rewriter, index);
  rewriter.redirect(output, attention_by_parts(builder, op, inputs_of(inputs, 3)));
}

void expand_backward(Rewriter& rewriter, size_t index) {
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index)), outputs = rewriter.node(index).outputs;
  const Op op = rewriter.op(index);
  NodeBuilder builder(rewriter, index);
  const AttentionGradients made = attention_gradients(builder, op, inputs_of(inputs, 4), inputs[3], false, false);
  for (size_t k = 0; k < outputs.size(); ++k) rewriter.redirect(outputs[k], made[k]);
}

}  // namespace

Pass expand_attention(Device* device) {
  return {"expand_attention",
          "Makes attention of products and a softmax, with the scores as tensors, where the device is expected to take "
          "several times as long for its own kernel; its gradients alike, where it has none.  Bound: rounding.",
          [device](Graph& graph, Context& context) {
            return sweep(graph, [&](Rewriter& rewriter, size_t index) {
              const Node& node = rewriter.node(index);
              if (is_attention_backward(node)) {
                if (!device || !has_kernel(context, *device, rewriter.op(index))) expand_backward(rewriter, index);
              } else if (is_attention(node) && device && !rewriter.has_post_ops(index) &&
                         is_slower_than_parts(context, *device, rewriter.op(index))) {
                expand_forward(rewriter, index);
              }
            });
          }};
}

}  // namespace pl::passes
