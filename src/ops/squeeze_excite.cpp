// squeeze_excite: channels weighted by what a small network makes of their means.
#include <algorithm>

#include "ops/activation.h"
#include "ops/gradient.h"

namespace pl {
namespace {

// A matrix as linear has it, or the weights of a 1x1 convolution.
void check_matrix(const Op& op, int index, int64_t rows, int64_t columns, const char* meaning) {
  const Dims& shape = op.in(index).shape;
  bool fits = shape.size() >= 2 && (rows < 0 || shape[0] == rows) && shape[1] == columns;
  for (int d = 2; d < shape.size(); ++d) fits = fits && shape[d] == 1;
  check(op, fits, Code::shape, op.schema->input_parameter(index).name, " has shape ", shape, ", expected ", meaning);
}

void infer_squeeze_excite(Op& op) {
  check_rank(op, 0, 3, kMaxRank);
  const int64_t channels = op.in(0).shape[1];
  check_matrix(op, 1, -1, channels, "(s, c), or (s, c, 1, 1)");
  const int64_t squeezed = op.in(1).shape[0];
  check_shape(op, 2, {squeezed}, "weight1.s");
  check_matrix(op, 3, channels, squeezed, "(c, s), or (c, s, 1, 1)");
  check_shape(op, 4, {channels}, "x.c");
  add_output(op);
}

double squeeze_excite_flops(const Op& op) {
  return 2.0 * double(op.in(0).elements()) +
         4.0 * double(op.in(0).shape[0]) * double(op.in(1).shape[0]) * double(op.in(0).shape[1]);
}

// Means, the hidden layer and the gate are few numbers, computed again.
void derive_squeeze_excite(Derivation& d) {
  const Op& op = d.op();
  const Dims& x = op.in(0).shape;
  const int64_t images = x[0], channels = x[1], squeezed = op.in(1).shape[0];
  const double positions = double(x.product() / std::max<int64_t>(1, images * channels));
  const std::string &hidden_function = op.attributes[attr::hidden], &gate_function = op.attributes[attr::gate];
  std::vector<int64_t> spatial;
  Dims pixel{images, channels};
  for (int i = 2; i < x.size(); ++i) {
    spatial.push_back(i);
    pixel.push_back(1);
  }
  const auto product = [&](Derivation::Value a, Derivation::Value b, bool transpose_a) {
    return d.make("matmul", Attributes{{attr::transpose_a, transpose_a}}, {a, b});
  };
  const Derivation::Value g = d.gradient();
  const Derivation::Value first = d.reshaped(d.input(1), {squeezed, channels});
  const Derivation::Value second = d.reshaped(d.input(3), {channels, squeezed});
  const Derivation::Value means =
      d.make("mean", Attributes{{attr::dim_ints, spatial}, {attr::keepdim, false}}, {d.input(0)});
  const Derivation::Value before_hidden = d.make("linear", {}, {means, first, d.input(2)});
  const Derivation::Value hidden = d.make(hidden_function, {}, {before_hidden});
  const Derivation::Value before_gate = d.make("linear", {}, {hidden, second, d.input(4)});
  const Derivation::Value gate = d.reshaped(d.make(gate_function, {}, {before_gate}), pixel);
  const Derivation::Value by_gate = d.pointwise(
      slope_by_argument(gate_function), {before_gate, d.summed(d.make("mul", {}, {g, d.input(0)}), spatial, false)});
  const Derivation::Value by_hidden =
      d.pointwise(slope_by_argument(hidden_function), {before_hidden, product(by_gate, second, false)});
  d.give_if_wanted(0, [&] {
    const Derivation::Value by_means = d.reshaped(product(by_hidden, first, false), pixel);
    return d.pointwise("y0 = x0 * x1 + x2 * s0", {g, gate, by_means}, {1.0 / std::max(positions, 1.0)});
  });
  d.give_if_wanted(1, [&] { return d.reshaped(product(by_hidden, means, true), op.in(1).shape); });
  d.give_if_wanted(2, [&] { return d.summed(by_hidden, {0}, false); });
  d.give_if_wanted(3, [&] { return d.reshaped(product(by_gate, hidden, true), op.in(3).shape); });
  d.give_if_wanted(4, [&] { return d.summed(by_gate, {0}, false); });
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
      .of(dtypes::floats)
      .batched()
      .tensor("weight1", "(s, c), or (s, c, 1, 1)", Role::constant)
      .like("x")
      .tensor("bias1", "(s)", Role::constant)
      .like("x")
      .tensor("weight2", "(c, s), or (c, s, 1, 1)", Role::constant)
      .like("x")
      .tensor("bias2", "(c)", Role::constant)
      .like("x")
      .attribute(attr::hidden, std::string("relu"), "f, the function of the first layer", {"relu", "silu", "hardswish"})
      .attribute(attr::gate, std::string("sigmoid"), "the function of the second layer", {"sigmoid", "hardsigmoid"})
      .result(Result("y").like("x").shaped("x").over("x"));
  schema.infer = infer_squeeze_excite;
  schema.gradient = derive_squeeze_excite;
  schema.flops = squeeze_excite_flops;
  return schema;
}

PL_REGISTER_OP(squeeze_excite);

}  // namespace
}  // namespace pl
