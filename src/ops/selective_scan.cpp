// selective_scan: the recurrence of Mamba's state space models.
#include "ops/op.h"

namespace pl {
namespace {

void infer(Op& op) {
  check_rank(op, 0, 3, 3);
  const Dims& u = op.in(0).shape;
  const auto expect = [&](int input, const Dims& shape, const char* meaning) {
    check(op, op.in(input).shape == shape, Code::shape, op.schema->input_parameter(input).name, ".shape is ",
          op.in(input).shape, ", expected ", shape, " (", meaning, ")");
  };
  expect(1, u, "the shape of u");
  check_rank(op, 2, 2, 2);
  const int64_t states = op.in(2).shape[1];
  expect(2, Dims{u[1], states}, "as many rows as u has channels");
  const Dims rows{u[0], u[2], states};
  expect(3, rows, "images and steps of u, columns of a");
  expect(4, rows, "images and steps of u, columns of a");
  add_output(op);
}

Schema selective_scan() {
  Schema schema(
      "selective_scan", "selective_scan",
      "Selective scan: each channel has states that decay and take in its values step by step.\n\n"
      "h[t, i] = exp(delta[n, d, t] * a[d, i]) * h[t - 1, i] + delta[n, d, t] * b[n, t, i] * u[n, d, t]\n"
      "y[n, d, t] = sum over i of c[n, t, i] * h[t, i]\n\n"
      "with h[-1] = 0, for each image n and channel d.\n\nReturns the shape and dtype of u; states are f32.\n\n"
      "Source: A. Gu and T. Dao, arXiv 2312.00752, algorithm 2.");
  schema.tensor("u", "(n, d, steps); f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("delta", "the shape and dtype of u")
      .like("u")
      .batched()
      .tensor("a", "(d, states); the dtype of u")
      .like("u")
      .tensor("b", "(n, steps, states); the dtype of u")
      .like("u")
      .batched()
      .tensor("c", "(n, steps, states); the dtype of u")
      .like("u")
      .batched()
      .result(Result("y").like("u").shaped("u"));
  schema.last_axes = 2;
  schema.infer = infer;
  schema.flops = [](const Op& op) { return 7.0 * double(op.in(0).elements()) * double(op.in(2).shape[1]); };
  return schema;
}

PL_REGISTER_OP(selective_scan);

}  // namespace
}  // namespace pl
