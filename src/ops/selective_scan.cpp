// selective_scan: the recurrence of Mamba's state space models; and its gradients.
#include <string_view>

#include "ops/gradient.h"

namespace pl {
namespace {

void check_shapes(const Op& op) {
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
}

// The inputs of selective_scan, which its gradient takes too; `apart`: each image of the results follows from its own.
void add_inputs(Schema& schema, bool apart) {
  const auto add = [&](const char* name, const char* doc, bool of_images) {
    schema.tensor(name, doc);
    if (std::string_view(name) == "u")
      schema.of(dtypes::floats);
    else
      schema.like("u");
    if (apart && of_images) schema.batched();
  };
  add("u", "(n, d, steps); f32, f16 or bf16", true);
  add("delta", "the shape and dtype of u", true);
  add("a", "(d, states); the dtype of u", false);
  add("b", "(n, steps, states); the dtype of u", true);
  add("c", "(n, steps, states); the dtype of u", true);
}

void derive_selective_scan(Derivation& d) {
  const auto made =
      d.add("selective_scan_backward", {}, {d.input(0), d.input(1), d.input(2), d.input(3), d.input(4), d.gradient()});
  for (int i = 0; i < 5; ++i) d.give_if_wanted(i, [&] { return made[size_t(i)]; });
}

Schema selective_scan() {
  Schema schema(
      "selective_scan", "selective_scan",
      "Selective scan: each channel has states that decay and take in its values step by step.\n\n"
      "h[t, i] = exp(delta[n, d, t] * a[d, i]) * h[t - 1, i] + delta[n, d, t] * b[n, t, i] * u[n, d, t]\n"
      "y[n, d, t] = sum over i of c[n, t, i] * h[t, i]\n\n"
      "with h[-1] = 0, for each image n and channel d.\n\nReturns the shape and dtype of u; states are f32.\n\n"
      "Source: A. Gu and T. Dao, arXiv 2312.00752, algorithm 2.");
  add_inputs(schema, true);
  schema.result(Result("y").like("u").shaped("u"));
  schema.last_axes = 2;
  schema.infer = [](Op& op) {
    check_shapes(op);
    add_output(op);
  };
  schema.gradient = derive_selective_scan;
  schema.flops = [](const Op& op) { return 7.0 * double(op.in(0).elements()) * double(op.in(2).shape[1]); };
  return schema;
}

Schema selective_scan_backward() {
  Schema schema(
      "selective_scan_backward", "selective_scan_backward",
      "The gradients of selective_scan.\n\n"
      "With h of selective_scan, e[t, i] = exp(delta[n, d, t] * a[d, i]), and from the last step to the first\n"
      "m[t, i] = grad[n, d, t] * c[n, t, i] + e[t + 1, i] * m[t + 1, i]:\n"
      "du[n, d, t] = sum over i of m[t, i] * delta[n, d, t] * b[n, t, i]\n"
      "ddelta[n, d, t] = sum over i of m[t, i] * (a[d, i] * e[t, i] * h[t - 1, i] + b[n, t, i] * u[n, d, t])\n"
      "da[d, i] = sum over n and t of m[t, i] * delta[n, d, t] * e[t, i] * h[t - 1, i]\n"
      "db[n, t, i] = sum over d of m[t, i] * delta[n, d, t] * u[n, d, t]\n"
      "dc[n, t, i] = sum over d of grad[n, d, t] * h[t, i]\n\n"
      "Returns du, ddelta, da, db and dc, each of the shape and dtype of its input; sums are kept in f32.\n\n"
      "Source: the derivative of selective_scan.");
  add_inputs(schema, false);
  schema.tensor("grad", "the shape of u: the gradient by the result").like("u");
  for (const char* input : {"u", "delta", "a", "b", "c"})
    schema.result(Result(concat("d", input)).like(input).shaped(input));
  schema.infer = [](Op& op) {
    check_shapes(op);
    check_shape(op, 5, op.in(0).shape, "u.shape");
    for (int k = 0; k < 5; ++k) add_output(op);
  };
  schema.flops = [](const Op& op) { return 24.0 * double(op.in(0).elements()) * double(op.in(2).shape[1]); };
  return schema;
}

PL_REGISTER_OP(selective_scan);
PL_REGISTER_OP(selective_scan_backward);

}  // namespace
}  // namespace pl
