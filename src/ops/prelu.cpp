// prelu: a rectifier with a learned slope.
#include "ops/op.h"

namespace pl {
namespace {

void infer(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  check_float(op, 0);
  check_rank(op, 1, 1, 1);
  check_same_dtype(op, 1);
  const Dims& x = op.in(0).shape;
  const int64_t channels = x.size() >= 2 ? x[1] : 1, slopes = op.in(1).shape[0];
  check(op, slopes == 1 || slopes == channels, Code::shape, "weight has ", slopes, " values, expected 1 or ", channels,
        " (x.c)");
  add_output(op, op.in(0).dtype, x);
}

Schema prelu() {
  Schema schema("prelu", "prelu",
                "Rectifier with a learned slope below zero, one for all channels or one for each.\n\n"
                "y[n, c, ...] = x if x > 0 else weight[c] * x\n\nReturns the shape and dtype of x.\n\n"
                "Source: K. He et al., arXiv 1502.01852.");
  schema.tensor("x", "(n, c, ...), f32, f16 or bf16").tensor("weight", "(1) or (c)", Role::constant);
  schema.infer = infer;
  return schema;
}

PL_REGISTER_OP(prelu);

}  // namespace
}  // namespace pl
