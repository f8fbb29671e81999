// squeeze_excite: channels weighted by what a small network makes of their means.
#include "ops/op.h"

namespace pl {
namespace {

// A matrix as linear has it, or the weights of a 1x1 convolution.
void check_matrix(const Op& op, int index, int64_t rows, int64_t columns, const char* meaning) {
  const Dims& shape = op.in(index).shape;
  bool fits = shape.size() >= 2 && (rows < 0 || shape[0] == rows) && shape[1] == columns;
  for (int d = 2; d < shape.size(); ++d) fits = fits && shape[d] == 1;
  check(op, fits, Code::shape, op.schema->input_parameter(index).name, " has shape ", shape, ", expected ", meaning);
}

void infer(Op& op) {
  check_rank(op, 0, 3, kMaxRank);
  check_float(op, 0);
  for (int i = 1; i < 5; ++i) check_same_dtype(op, i);
  const int64_t channels = op.in(0).shape[1];
  check_matrix(op, 1, -1, channels, "(s, c), or (s, c, 1, 1)");
  const int64_t squeezed = op.in(1).shape[0];
  check_shape(op, 2, {squeezed}, "weight1.s");
  check_matrix(op, 3, channels, squeezed, "(c, s), or (c, s, 1, 1)");
  check_shape(op, 4, {channels}, "x.c");
  add_output(op, op.in(0).dtype, op.in(0).shape);
}

double flops(const Op& op) {
  return 2.0 * double(op.in(0).elements()) +
         4.0 * double(op.in(0).shape[0]) * double(op.in(1).shape[0]) * double(op.in(0).shape[1]);
}

Schema squeeze_excite() {
  Schema schema("squeeze_excite", "squeeze_excite",
                "Each channel times a weight that a network of two layers makes of the means of all channels.\n\n"
                "y[n, c, ...] = x[n, c, ...] * gate(sum over s of weight2[c, s] * hidden[n, s] + bias2[c])\n"
                "hidden[n, s] = f(sum over c of weight1[s, c] * mean of x[n, c] + bias1[s])\n"
                "with means over all positions of x; sums and hidden are kept in f32.\n\n"
                "Returns the shape and dtype of x.\n\n"
                "Source: J. Hu, L. Shen, G. Sun, Squeeze-and-Excitation Networks, arXiv 1709.01507.");
  schema.tensor("x", "(n, c, ...), rank at least 3; f32, f16 or bf16")
      .tensor("weight1", "(s, c), or (s, c, 1, 1)", Role::constant)
      .tensor("bias1", "(s)", Role::constant)
      .tensor("weight2", "(c, s), or (c, s, 1, 1)", Role::constant)
      .tensor("bias2", "(c)", Role::constant)
      .attribute("hidden", AttributeType::string, std::string("relu"), "f, the function of the first layer",
                 {"relu", "silu", "hardswish"})
      .attribute("gate", AttributeType::string, std::string("sigmoid"), "the function of the second layer",
                 {"sigmoid", "hardsigmoid"});
  schema.infer = infer;
  schema.flops = flops;
  return schema;
}

PL_REGISTER_OP(squeeze_excite);

}  // namespace
}  // namespace pl
