// local_response_norm: normalisation by neighbouring channels.
#include <algorithm>

#include "ops/gradient.h"

namespace pl {
namespace {

void infer_lrn(Op& op) {
  check_rank(op, 0, 3, kMaxRank);
  check_range(op, attr::size, {op.attributes[attr::size]}, 1, (int64_t(1) << 31) - 1);
  for (const Key<double>& key : {attr::alpha, attr::beta, attr::k_float}) check_finite(op, key);
  add_output(op);
}

// With d = k + alpha * (mean of squares over the window): dx = g / d^beta - 2 alpha beta / size * x * (sum of
// g x / d^(beta + 1) over the windows that hold the channel), the sums as average pools along channels.
void derive_lrn(Derivation& d) {
  const Op& op = d.op();
  const Dims& x = op.in(0).shape;
  if (x.product() == 0) return d.give(0, d.gradient());  // pools take no empty planes
  const int64_t size = op.attributes[attr::size], before = size / 2, after = (size - 1) / 2;
  const Dims pixels{x[0], 1, x[1], x.product() / (x[0] * x[1])};
  const auto mean = [&](Derivation::Value value, int64_t begin, int64_t end) {
    const Derivation::Value pooled = d.make("avg_pool2d",
                                            Attributes{{attr::kernel_size, std::vector<int64_t>{size, 1}},
                                                       {attr::stride, int64_t(1)},
                                                       {attr::padding, std::vector<int64_t>{begin, 0, end, 0}}},
                                            {d.reshaped(value, pixels)});
    return d.reshaped(pooled, x);
  };
  const double alpha = op.attributes[attr::alpha], beta = op.attributes[attr::beta];
  const std::vector<double> numbers{alpha, beta, op.attributes[attr::k_float]};
  const Derivation::Value g = d.gradient(), from = d.input(0);
  const Derivation::Value squares = mean(d.make("square", {}, {from}), before, after);
  const Derivation::Value shares =
      mean(d.pointwise("y0 = x0 * x1 * pow(s2 + s0 * x2, -s1 - 1)", {g, from, squares}, numbers), after, before);
  d.give(0,
         d.pointwise("y0 = x0 * pow(s2 + s0 * x2, -s1) - 2 * s0 * s1 * x1 * x3", {g, from, squares, shares}, numbers));
}

Schema local_response_norm() {
  Schema schema("local_response_norm", "lrn",
                "Normalisation of each element by its neighbours in other channels.\n\n"
                "y[n, c, ...] = x[n, c, ...] / (k + alpha / size * sum over j of x[n, j, ...]^2)^beta\n"
                "over the channels c - size / 2 <= j <= c + (size - 1) / 2 that exist, halves rounded down.\n\n"
                "Returns the shape and dtype of x.\n\n"
                "Source: A. Krizhevsky et al., ImageNet classification with deep convolutional neural networks, 2012; "
                "semantics of torch.nn.functional.local_response_norm.");
  schema.tensor("x", "(n, c, ...), rank at least 3; f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .required(attr::size, "channels in the window, at least 1")
      .attribute(attr::alpha, 1e-4, "factor of the mean of squares")
      .attribute(attr::beta, 0.75, "exponent")
      .attribute(attr::k_float, 1.0, "added to the mean of squares")
      .result(Result("y").like("x").shaped("x"));
  schema.infer = infer_lrn;
  schema.gradient = derive_lrn;
  schema.flops = [](const Op& op) { return double(2 * op.attributes[attr::size] + 4) * double(op.out().elements()); };
  return schema;
}

PL_REGISTER_OP(local_response_norm);

}  // namespace
}  // namespace pl
