// rotary_embedding: positions as rotations of pairs of columns.
#include "ops/op.h"

namespace pl {
namespace {

void infer(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  check_float(op, 0);
  const Dims& x = op.in(0).shape;
  const int rank = x.size();
  for (int i = 1; i < 3; ++i) {
    const TensorDesc& table = op.in(i);
    const std::string& name = op.schema->input_parameter(i).name;
    check_same_dtype(op, i);
    check(op, table.rank() >= 1 && table.rank() <= rank, Code::shape, name, " has rank ", table.rank(),
          ", expected 1 to ", rank, " (the rank of x)");
    for (int d = 0; d < table.rank() - 1; ++d)
      check(op, table.shape[d] == 1 || table.shape[d] == x[rank - table.rank() + d], Code::shape, name, " has shape ",
            table.shape, ", whose first sizes do not broadcast to those of x, which has shape ", x);
    const int64_t columns = table.shape[table.rank() - 1];
    check(op, columns % 2 == 0 && columns <= x[rank - 1], Code::shape, name, " has ", columns,
          " columns, expected an even number of at most ", x[rank - 1], " (those of x)");
  }
  const Dims &cosines = op.in(1).shape, &sines = op.in(2).shape;
  check(op, cosines[cosines.size() - 1] == sines[sines.size() - 1], Code::shape, "sin has ", sines[sines.size() - 1],
        " columns, expected ", cosines[cosines.size() - 1], " (those of cos)");
  add_output(op, op.in(0).dtype, x);
}

Schema rotary_embedding() {
  Schema schema("rotary_embedding", "rotary_embedding",
                "Rotary position embedding: pairs of columns turned by angles that depend on the position.\n\n"
                "y[..., i] = x[..., i] * cos[..., i] - x[..., i + r / 2] * sin[..., i]        for i < r / 2\n"
                "y[..., i] = x[..., i] * cos[..., i] + x[..., i - r / 2] * sin[..., i]        for r / 2 <= i < r\n"
                "y[..., i] = x[..., i]                                                        for r <= i < e\n\n"
                "with r the columns of cos and sin.\n\nReturns the shape and dtype of x.\n\n"
                "Source: J. Su et al., arXiv 2104.09864, with the halves in the place of neighbours as in GPT-NeoX.");
  schema.tensor("x", "(..., l, e), most often queries or keys (n, heads, l, e); f32, f16 or bf16")
      .tensor("cos", "broadcasts to (..., l, r), r even and at most e; the dtype of x")
      .tensor("sin", "the same, with as many columns");
  schema.infer = infer;
  schema.flops = [](const Op& op) { return 3.0 * double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP(rotary_embedding);

}  // namespace
}  // namespace pl
