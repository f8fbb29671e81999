// cross_entropy and its gradient.
#include "ops/gradient.h"

namespace pl {
namespace {

// Shapes of x (n, c, ...) and of targets (n, ...), and the attributes.
Dims check_targets(Op& op, int weight) {
  check_rank(op, 0, 2, kMaxRank);
  const Dims& x = op.in(0).shape;
  Dims targets{x[0]};
  for (int i = 2; i < x.size(); ++i) targets.push_back(x[i]);
  check_shape(op, 1, targets, "x.shape without its dimension 1");
  check(op, x[1] >= 1, Code::shape, "x.c is 0, expected at least 1");
  check_shape(op, weight, {x[1]}, "x.c");
  const double smoothing = op.attributes[attr::label_smoothing];
  check(op, smoothing >= 0 && smoothing <= 1, Code::invalid_argument, "label_smoothing is ", smoothing,
        ", expected 0 to 1");
  return op.attributes[attr::reduction] == "none" ? targets : Dims{};
}

void add_cross_entropy_attributes(Schema& schema) {
  schema.attribute(attr::ignore_index, int64_t(-100), "positions with this target do not count")
      .attribute(attr::reduction, std::string("mean"), "mean: the sum divided by the sum of the targets' weights",
                 {"mean", "sum", "none"})
      .attribute(attr::label_smoothing, 0.0, "share of the target that all classes have in equal parts, 0 to 1");
  schema.flops = [](const Op& op) { return 6.0 * double(op.in(0).elements()); };
  schema.integers = [](const Op& op, int) { return std::pair<int64_t, int64_t>{0, op.in(0).shape[1] - 1}; };
}

void derive_cross_entropy(Derivation& d) {
  Attributes attributes;
  attributes.take(d.op().attributes, {attr::ignore_index, attr::reduction, attr::label_smoothing});
  std::vector<Derivation::Value> inputs{d.input(0), d.input(1), d.gradient()};
  if (d.op().has(2)) inputs.push_back(d.input(2));
  d.give_if_wanted(0, [&] { return d.make("cross_entropy_backward", attributes, inputs); });
}

Schema cross_entropy() {
  Schema schema("cross_entropy", "cross_entropy",
                "Cross entropy between the softmax of x along its dimension 1 and classes given by number.\n\n"
                "loss[n, p] = -(1 - s) * weight[t] * l[t] - s / c * (sum over i of weight[i] * l[i]) with "
                "l = log_softmax(x[n, :, p]), t = target[n, p], s = label_smoothing\n\n"
                "Returns a scalar, or the shape of target with reduction none, in the dtype of x; sums are kept in "
                "double.  A target that is neither a class nor ignore_index is an error on the host, "
                "elsewhere the loss is NaN.\n\n"
                "Source: semantics of torch.nn.functional.cross_entropy.");
  schema.tensor("x", "(n, c, ...), before the softmax; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("target", "(n, ...), s64 or s32: classes")
      .of(dtypes::indices)
      .optional("weight", "(c), of classes; None: ones")
      .like("x")
      .result(Result("loss").like("x"));
  add_cross_entropy_attributes(schema);
  schema.infer = [](Op& op) { add_output(op, check_targets(op, 2)); };
  schema.gradient = derive_cross_entropy;
  return schema;
}

Schema cross_entropy_backward() {
  Schema schema("cross_entropy_backward", "cross_entropy_backward",
                "The gradient of cross_entropy by x.\n\n"
                "dx[n, i, p] = grad * (softmax(x)[i] * w - (1 - s) * weight[t] * (i == t) - s / c * weight[i]), with "
                "w the sum of the weights in the loss, (1 - s) * weight[t] + s / c * sum(weight)\n\n"
                "Returns the shape and dtype of x.\n\nSource: the derivative of the formula.");
  schema.tensor("x", "(n, c, ...), f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("target", "(n, ...), s64 or s32")
      .of(dtypes::indices)
      .tensor("grad", "the shape of the loss, the dtype of x")
      .like("x")
      .optional("weight", "(c), of classes; None: ones")
      .like("x")
      .result(Result("dx").like("x").shaped("x"));
  add_cross_entropy_attributes(schema);
  schema.infer = [](Op& op) {
    const Dims loss = check_targets(op, 3);
    check_shape(op, 2, loss, "the shape of the loss");
    add_output(op);
  };
  return schema;
}

PL_REGISTER_OP(cross_entropy);
PL_REGISTER_OP(cross_entropy_backward);

}  // namespace
}  // namespace pl
