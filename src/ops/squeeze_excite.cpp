// squeeze_excite: channels weighted by what a small network makes of their means.
#include "ops/squeeze_excite.h"

#include <algorithm>

#include "ops/activation.h"

namespace pl {
namespace {

// A matrix as linear has it, or the weights of a 1x1 convolution.
void check_matrix(const Op& op, int index, int64_t rows, int64_t columns, const char* meaning) {
  const Dims& shape = op.in(index).shape;
  bool fits = shape.size() >= 2 && (rows < 0 || shape[0] == rows) && shape[1] == columns;
  for (int d = 2; d < shape.size(); ++d) fits = fits && shape[d] == 1;
  check(op, fits, Code::shape, op.schema->input_parameter(index).name, " has shape ", shape, ", expected ", meaning);
}

// `weight1`: which input that is; the other weights follow it.
void check_layers(Op& op, int weight1) {
  check_rank(op, 0, 3, kMaxRank);
  const int64_t channels = op.in(0).shape[1];
  check_matrix(op, weight1, -1, channels, "(s, c), or (s, c, 1, 1)");
  const int64_t squeezed = op.in(weight1).shape[0];
  check_shape(op, weight1 + 1, {squeezed}, "weight1.s");
  check_matrix(op, weight1 + 2, channels, squeezed, "(c, s), or (c, s, 1, 1)");
  check_shape(op, weight1 + 3, {channels}, "x.c");
}

void infer_squeeze_excite(Op& op) {
  check_layers(op, 1);
  add_output(op);
}

void infer_squeeze_excite_backward(Op& op) {
  check_layers(op, 2);
  check_shape(op, 1, op.in(0).shape, "x.shape");
  add_output(op);
  for (int i = 2; i < 6; ++i) add_output(op, op.in(i).shape);
}

double squeeze_excite_flops(const Op& op) {
  return 2.0 * double(op.in(0).elements()) +
         4.0 * double(op.in(0).shape[0]) * double(op.in(1).shape[0]) * double(op.in(0).shape[1]);
}

// Both layers are computed again, and each has two gradients.
double squeeze_excite_backward_flops(const Op& op) {
  return 6.0 * double(op.in(0).elements()) +
         12.0 * double(op.in(0).shape[0]) * double(op.in(2).shape[0]) * double(op.in(0).shape[1]);
}

void derive_squeeze_excite(Derivation& d) {
  std::vector<Derivation::Value> inputs{d.input(0), d.gradient()};
  for (int i = 1; i < 5; ++i) inputs.push_back(d.input(i));
  Attributes attributes;
  attributes.take(d.op().attributes, {attr::hidden, attr::gate});
  const auto made = d.add("squeeze_excite_backward", attributes, inputs);
  for (int i = 0; i < 5; ++i) d.give_if_wanted(i, [&] { return made[size_t(i)]; });
}

// What both directions compute, and the shapes of that.
struct Parts {
  Dims pixel;                                                // (n, c, 1, ...)
  Builder::Value first, second;                              // weights as matrices
  Builder::Value means, before_hidden, hidden, before_gate;  // (n, c), (n, s), (n, s), (n, c)
  Builder::Value gate;                                       // as pixel

  Parts(Builder& builder, const Op& op, const std::vector<Builder::Value>& inputs) {
    const Dims x = builder.desc(inputs[0]).shape;
    const int64_t channels = x[1], squeezed = builder.desc(inputs[1]).shape[0];
    pixel = Dims::filled(x.size(), 1);
    pixel[0] = x[0], pixel[1] = channels;
    first = builder.reshaped(inputs[1], {squeezed, channels});
    second = builder.reshaped(inputs[3], {channels, squeezed});
    means = builder.reshaped(builder.make("global_avg_pool", {}, {inputs[0]}), {x[0], channels});
    before_hidden = builder.make("linear", {}, {means, first, inputs[2]});
    hidden = builder.make(op.attributes[attr::hidden], {}, {before_hidden});
    before_gate = builder.make("linear", {}, {hidden, second, inputs[4]});
    gate = builder.reshaped(builder.make(op.attributes[attr::gate], {}, {before_gate}), pixel);
  }
};

// The parameters of both ops behind what they weigh.
Schema& take_layers(Schema& schema) {
  return schema.tensor("weight1", "(s, c), or (s, c, 1, 1)", Role::constant)
      .like("x")
      .tensor("bias1", "(s)", Role::constant)
      .like("x")
      .tensor("weight2", "(c, s), or (c, s, 1, 1)", Role::constant)
      .like("x")
      .tensor("bias2", "(c)", Role::constant)
      .like("x")
      .attribute(attr::hidden, std::string("relu"), "f, the function of the first layer", {"relu", "silu", "hardswish"})
      .attribute(attr::gate, std::string("sigmoid"), "the function of the second layer", {"sigmoid", "hardsigmoid"});
}

Schema squeeze_excite() {
  Schema schema("squeeze_excite", "squeeze_excite",
                "Each channel times a weight that a network of two layers makes of the means of all channels.\n\n"
                "y[n, c, ...] = x[n, c, ...] * gate(sum over s of weight2[c, s] * hidden[n, s] + bias2[c])\n"
                "hidden[n, s] = f(sum over c of weight1[s, c] * mean of x[n, c] + bias1[s])\n"
                "with means over all positions of x; sums and hidden are kept in f32.\n\n"
                "Returns the shape and dtype of x.\n\n"
                "Source: J. Hu, L. Shen, G. Sun, Squeeze-and-Excitation Networks, arXiv 1709.01507.");
  take_layers(schema.tensor("x", "(n, c, ...), rank at least 3; f32, f16 or bf16").of(dtypes::floats).batched())
      .result(Result("y").like("x").shaped("x").over("x"));
  schema.infer = infer_squeeze_excite;
  schema.gradient = derive_squeeze_excite;
  schema.flops = squeeze_excite_flops;
  return schema;
}

Schema squeeze_excite_backward() {
  Schema schema(
      "squeeze_excite_backward", "squeeze_excite_backward",
      "The gradients of squeeze_excite.\n\n"
      "With a = weight1 * means + bias1, hidden = f(a), b = weight2 * hidden + bias2, y = x * gate(b) for each "
      "image, and sums and means over all positions:\n"
      "db = gate'(b) * sum(grad * x), da = f'(a) * (weight2^T * db), "
      "dx = grad * gate(b) + (weight1^T * da) / positions,\n"
      "dweight1 = sum over n of da * means^T, dbias1 = sum over n of da, "
      "dweight2 = sum over n of db * hidden^T, dbias2 = sum over n of db\n\n"
      "Returns dx, dweight1, dbias1, dweight2 and dbias2, of the shapes and the dtype of these inputs; what "
      "lies between is kept in f32.\n\n"
      "Source: the derivative of the formula.");
  take_layers(schema.tensor("x", "(n, c, ...), rank at least 3; f32, f16 or bf16")
                  .of(dtypes::floats)
                  .tensor("grad", "the shape of x: the gradient by y")
                  .like("x"));
  schema.result(Result("dx").like("x").shaped("x").over("grad"));
  for (const char* name : {"dweight1", "dbias1", "dweight2", "dbias2"}) schema.result(Result(name).like("x"));
  schema.infer = infer_squeeze_excite_backward;
  schema.flops = squeeze_excite_backward_flops;
  return schema;
}

PL_REGISTER_OP(squeeze_excite);
PL_REGISTER_OP(squeeze_excite_backward);

}  // namespace

Builder::Value squeeze_excite_by_parts(Builder& builder, const Op& op, const std::vector<Builder::Value>& inputs) {
  return builder.make("mul", {}, {inputs[0], Parts(builder, op, inputs).gate});
}

std::array<Builder::Value, 5> squeeze_excite_gradients(Builder& builder, const Op& op,
                                                       const std::vector<Builder::Value>& inputs, Builder::Value grad) {
  const Parts parts(builder, op, inputs);
  const Dims x = builder.desc(inputs[0]).shape, weight1 = builder.desc(inputs[1]).shape,
             weight2 = builder.desc(inputs[3]).shape;
  const double positions = double(x.product() / std::max<int64_t>(1, x[0] * x[1]));
  std::vector<int64_t> spatial;
  for (int i = 2; i < x.size(); ++i) spatial.push_back(i);
  const auto product = [&](Builder::Value a, Builder::Value b, bool transpose_a) {
    return builder.make("matmul", Attributes{{attr::transpose_a, transpose_a}}, {a, b});
  };
  const Builder::Value by_gate = builder.pointwise(
      slope_by_argument(op.attributes[attr::gate]),
      {parts.before_gate, builder.summed(builder.make("mul", {}, {grad, inputs[0]}), spatial, false)});
  const Builder::Value by_hidden = builder.pointwise(slope_by_argument(op.attributes[attr::hidden]),
                                                     {parts.before_hidden, product(by_gate, parts.second, false)});
  const Builder::Value by_means = builder.reshaped(product(by_hidden, parts.first, false), parts.pixel);
  return {builder.pointwise("y0 = x0 * x1 + x2 * s0", {grad, parts.gate, by_means}, {1.0 / std::max(positions, 1.0)}),
          builder.reshaped(product(by_hidden, parts.means, true), weight1), builder.summed(by_hidden, {0}, false),
          builder.reshaped(product(by_gate, parts.hidden, true), weight2), builder.summed(by_gate, {0}, false)};
}

}  // namespace pl
