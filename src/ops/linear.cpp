// linear: a fully connected layer.
#include "ops/gradient.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

void infer_linear(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  check_rank(op, 1, 2, 2);
  const Dims& x = op.in(0).shape;
  const Dims& weight = op.in(1).shape;
  const int last = x.size() - 1;
  check(op, weight[1] == x[last], Code::shape, "weight.in is ", weight[1], ", expected ", x[last],
        " (the last size of x)");
  Dims output = x;
  output[last] = weight[0];
  check_shape(op, 2, {weight[0]}, "weight.out");
  add_output(op, output);
}

void derive_linear(Derivation& d) {
  const Dims &x = d.op().in(0).shape, &weight = d.op().in(1).shape;
  const int last = x.size() - 1;
  const int64_t rows = x.product() / std::max<int64_t>(x[last], 1);
  d.give_if_wanted(0, [&] { return d.make("matmul", {}, {d.gradient(), d.input(1)}); });
  d.give_if_wanted(1, [&] {
    return d.make("matmul", Attributes{{attr::transpose_a, true}},
                  {d.reshaped(d.gradient(), {rows, weight[0]}), d.reshaped(d.input(0), {rows, weight[1]})});
  });
  d.give_if_wanted(2, [&] { return d.summed_to(d.gradient(), {weight[0]}); });
}

Schema linear() {
  Schema schema("linear", "linear",
                "Fully connected layer, with bias, residual sum and activation in one step.\n\n"
                "y = activation(x @ weight^T + bias + residual)\n\n"
                "Returns (..., out) in the dtype of x; sums are kept in at least f32.\n\n"
                "Source: semantics of torch.nn.functional.linear.");
  schema.tensor("x", "(..., in), f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("weight", "(out, in)", Role::constant)
      .like("x")
      .optional("bias", "(out)", Role::constant)
      .like("x");
  take_post_ops(schema, {PostOp::add("residual"), PostOp::multiply("gate")}, "x");
  schema.result(Result("y").like("x").over("residual"));
  schema.last_axes = 1;
  schema.other_axes = true;
  schema.keeps_finite = true;
  schema.infer = infer_linear;
  schema.products = true;
  schema.weighting = {Weighting::Order::outputs_first, -1};
  schema.quantized_as = "qlinear_matmul";
  schema.by_rows = true;
  schema.gradient = derive_linear;
  schema.flops = [](const Op& op) { return 2.0 * double(op.out().elements()) * double(op.in(1).shape[1]); };
  return schema;
}

PL_REGISTER_OP(linear);

}  // namespace
}  // namespace pl
