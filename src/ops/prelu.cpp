// prelu: a rectifier with a learned slope.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer_prelu(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  check_rank(op, 1, 1, 1);
  const Dims& x = op.in(0).shape;
  const int64_t channels = x.size() >= 2 ? x[1] : 1, slopes = op.in(1).shape[0];
  check(op, slopes == 1 || slopes == channels, Code::shape, "weight has ", slopes, " values, expected 1 or ", channels,
        " (x.c)");
  add_output(op);
}

Schema prelu() {
  Schema schema("prelu", "prelu",
                "Rectifier with a learned slope below zero, one for all channels or one for each.\n\n"
                "y[n, c, ...] = x if x > 0 else weight[c] * x\n\nReturns the shape and dtype of x.\n\n"
                "Source: K. He et al., arXiv 1502.01852.");
  schema.tensor("x", "(n, c, ...), f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("weight", "(1) or (c)", Role::constant)
      .like("x")
      .result(Result("y").like("x").shaped("x").over("x"));
  schema.infer = infer_prelu;
  schema.gradient = [](Derivation& d) {
    const Dims& x = d.op().in(0).shape;
    Dims slopes = Dims::filled(x.size(), 1);
    if (x.size() >= 2) slopes[1] = d.op().in(1).shape[0];
    const Derivation::Value g = d.gradient(), weight = d.reshaped(d.input(1), slopes);
    d.give_if_wanted(0, [&] { return d.pointwise("y0 = where(x0 > 0, x1, x1 * x2)", {d.input(0), g, weight}); });
    d.give_if_wanted(1, [&] {
      const Derivation::Value whole = d.pointwise("y0 = where(x0 > 0, 0, x0 * x1)", {d.input(0), g});
      return d.reshaped(d.summed_to(whole, slopes), d.op().in(1).shape);
    });
  };
  return schema;
}

PL_REGISTER_OP(prelu);

}  // namespace
}  // namespace pl
