#include "ops/attention.h"

namespace pl {
namespace {

using Term = Builder::Value;  // Value is another thing in graph/graph.h, which may be precompiled

// Several heads of q share one of k and v: those of k and v repeated.
Term repeated_heads(Builder& b, Term value, int64_t heads) {
  const Dims shape = b.desc(value).shape;
  const int at = shape.size() - 3;
  Dims apart(shape.begin(), size_t(at + 1)), joined = shape;
  apart.push_back(1);
  for (int i = at + 1; i < shape.size(); ++i) apart.push_back(shape[i]);
  Dims repeated = apart;
  repeated[at + 1] = heads / std::max<int64_t>(shape[at], 1);
  joined[at] = heads;
  return b.reshaped(b.expanded(b.reshaped(value, apart), repeated), joined);
}

Term summed_heads(Builder& b, Term value, const Dims& shape) {
  const int at = shape.size() - 3;
  const Dims joined = b.desc(value).shape;
  if (joined == shape) return value;
  Dims apart(shape.begin(), size_t(at + 1));
  apart.push_back(joined[at] / shape[at]);
  for (int i = at + 1; i < shape.size(); ++i) apart.push_back(shape[i]);
  return b.summed(b.reshaped(value, apart), {at + 1}, false);
}

Term product(Builder& b, Term left, Term right, bool transpose_a, bool transpose_b) {
  return b.make("matmul", Attributes{{attr::transpose_a, transpose_a}, {attr::transpose_b, transpose_b}},
                {left, right});
}

Term as(Builder& b, Term value, DType dtype) {
  if (b.desc(value).dtype == dtype) return value;
  return b.make("cast", Attributes{{attr::dtype, std::string(name_of(dtype))}}, {value});
}

double softcap_of(const Op& op) { return op.attributes.is_none(attr::softcap) ? 0 : op.attributes[attr::softcap]; }

Term dropped(Builder& b, const Op& op, Term weights, Term seed) {
  if (seed == Builder::kNone) return weights;
  return b.make("random_dropout", Attributes{{attr::p, op.attributes[attr::dropout_p]}}, {weights, seed});
}

// A forward pass as far as the weights of the values: heads that are shared repeated, q @ k^T, and what softmax gives.
struct Weighted {
  Term k, v, plain, weights;
};

Weighted weighted(Builder& b, const Op& op, Term q, Term given_k, Term given_v, Term mask, Term sinks) {
  const Attributes& a = op.attributes;
  const Dims q_shape = b.desc(q).shape;
  const int last = q_shape.size() - 1;
  const bool grouped = a[attr::enable_gqa] && q_shape[last - 2] != b.desc(given_k).shape[last - 2];
  const double scale = a[attr::scale], softcap = softcap_of(op);
  const Term k = grouped ? repeated_heads(b, given_k, q_shape[last - 2]) : given_k;
  const Term v = grouped ? repeated_heads(b, given_v, q_shape[last - 2]) : given_v;
  const Term plain = product(b, q, k, false, true);
  Term scores = b.pointwise(softcap > 0 ? "y0 = s1 * tanh(x0 * s0 / s1)" : "y0 = x0 * s0", {plain}, {scale, softcap});
  if (mask != Builder::kNone) {
    const bool boolean = b.desc(mask).dtype == DType::boolean;
    scores = b.pointwise(boolean ? "y0 = where(x1 != 0, x0, -inf)" : "y0 = x0 + x1", {scores, mask});
  }
  if (a[attr::is_causal]) {  // numbers of rows and columns, as sums of ones
    const Term ones = b.pointwise("y0 = 1", {scores});
    const Term row = b.make("cumsum", Attributes{{attr::dim, int64_t(last - 1)}}, {ones});
    const Term column = b.make("cumsum", Attributes{{attr::dim, int64_t(last)}}, {ones});
    scores = b.pointwise("y0 = where(x2 <= x1, x0, -inf)", {scores, row, column});
  }
  const Dims shape = b.desc(scores).shape;
  if (sinks != Builder::kNone) {
    Dims column = shape;
    column[last] = 1;
    scores = b.make("concat", Attributes{{attr::dim, int64_t(last)}},
                    {scores, b.expanded(as(b, sinks, b.desc(scores).dtype), column)});
  }
  Term weights = b.make("softmax", Attributes{{attr::dim, int64_t(last)}}, {scores});
  if (sinks != Builder::kNone) {
    weights = b.make("slice",
                     Attributes{{attr::starts, std::vector<int64_t>{0}},
                                {attr::ends, std::vector<int64_t>{shape[last]}},
                                {attr::axes, std::vector<int64_t>{last}}},
                     {weights});
  } else if (mask != Builder::kNone) {  // of a query that sees no key
    weights = b.pointwise("y0 = where(isnan(x0), 0, x0)", {weights});
  }
  return {k, v, plain, weights};
}

}  // namespace

Term attention_by_parts(Builder& b, const Op& op, const AttentionInputs& inputs) {
  const auto [q, k, v, mask, seed, sinks] = inputs;
  const DType dtype = b.desc(q).dtype;
  const Weighted made = weighted(b, op, as(b, q, DType::f32), as(b, k, DType::f32), v, mask, sinks);
  return product(b, as(b, dropped(b, op, made.weights, seed), dtype), made.v, false, false);
}

AttentionGradients attention_gradients(Builder& b, const Op& op, const AttentionInputs& inputs, Term g, bool by_mask,
                                       bool by_sinks) {
  const auto [q, given_k, given_v, mask, seed, sinks] = inputs;
  const auto [k, v, plain, weights] = weighted(b, op, q, given_k, given_v, mask, sinks);
  const Dims k_shape = b.desc(given_k).shape, v_shape = b.desc(given_v).shape;
  const int last = b.desc(q).rank() - 1;
  const double scale = op.attributes[attr::scale], softcap = softcap_of(op);
  const Term of_weights = dropped(b, op, product(b, g, v, false, true), seed);
  const Term sums = b.summed(b.make("mul", {}, {of_weights, weights}), {last}, true);
  const Term of_scores = b.pointwise("y0 = x1 * (x0 - x2)", {of_weights, weights, sums});
  const Term of_plain = b.pointwise(softcap > 0 ? "t = tanh(x1 * s0 / s1); y0 = x0 * s0 * (1 - t * t)" : "y0 = x0 * s0",
                                    {of_scores, plain}, {scale, softcap});
  const auto of_sinks = [&] {  // their values are 0, and their weights what is left
    return b.pointwise("y0 = (x0 - 1) * x1", {b.summed(weights, {last}, true), sums});
  };
  return {product(b, of_plain, k, false, false), summed_heads(b, product(b, of_plain, q, true, false), k_shape),
          summed_heads(b, product(b, dropped(b, op, weights, seed), g, true, false), v_shape),
          by_mask ? b.summed_to(of_scores, b.desc(mask).shape) : Builder::kNone,
          by_sinks ? b.summed_to(of_sinks(), b.desc(sinks).shape) : Builder::kNone};
}

}  // namespace pl
