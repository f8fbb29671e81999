// scaled_dot_product_attention: the heart of transformers, without the scores as a tensor.
#include <cmath>

#include "ops/gradient.h"

namespace pl {
namespace {

void infer(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  check_float(op, 0);
  const Dims &q = op.in(0).shape, &k = op.in(1).shape, &v = op.in(2).shape;
  const int rank = q.size(), rows = rank - 2, last = rank - 1;
  const bool grouped = op.attributes.flag("enable_gqa");
  check(op, !grouped || rank >= 3, Code::shape, "q has rank ", rank, ", expected at least 3 where enable_gqa is true");
  for (int i = 1; i < 3; ++i) {
    check_rank(op, i, rank, rank);
    check_same_dtype(op, i);
    for (int d = 0; d < (grouped ? rows - 1 : rows); ++d)
      check(op, op.in(i).shape[d] == q[d], Code::shape, op.schema->input_parameter(i).name, ".shape is ",
            op.in(i).shape, ", expected ", q[d], " along dimension ", d, " (q has shape ", q, ")");
  }
  if (grouped) {
    const int heads = rows - 1;
    check(op, k[heads] > 0 ? q[heads] % k[heads] == 0 : q[heads] == 0, Code::shape, "k.shape is ", k,
          ", expected a divisor of ", q[heads], " along dimension ", heads, " (q has shape ", q, ")");
    check(op, v[heads] == k[heads], Code::shape, "v.shape is ", v, ", expected ", k[heads], " along dimension ", heads,
          " (that of k, which has shape ", k, ")");
  }
  check(op, q[last] > 0, Code::shape, "q.shape is ", q, ", expected at least 1 as the last size");
  check(op, k[last] == q[last], Code::shape, "k.shape is ", k, ", expected ", q[last],
        " as the last size (that of q, which has shape ", q, ")");
  check(op, v[rows] == k[rows], Code::shape, "v.shape is ", v, ", expected ", k[rows], " along dimension ", rows,
        " (that of k, which has shape ", k, ")");
  if (op.has(3)) {
    const TensorDesc& mask = op.in(3);
    check(op, mask.dtype == DType::boolean || mask.dtype == op.in(0).dtype, Code::invalid_argument,
          "attn_mask.dtype is ", name_of(mask.dtype), ", expected bool or ", name_of(op.in(0).dtype), " (q.dtype)");
    Dims scores = q;
    scores[last] = k[rows];
    check(op, mask.rank() <= rank, Code::shape, "attn_mask has rank ", mask.rank(), ", expected at most ", rank);
    for (int d = 0; d < mask.rank(); ++d)
      check(op, mask.shape[d] == 1 || mask.shape[d] == scores[rank - mask.rank() + d], Code::shape,
            "attn_mask has shape ", mask.shape, ", which does not broadcast to ", scores);
  }
  if (op.attributes.is_none("scale")) {
    op.attributes.set("scale", 1.0 / std::sqrt(double(q[last])));
  } else {
    check_finite(op, "scale");
  }
  if (!op.attributes.is_none("softcap")) {
    check_finite(op, "softcap");
    const double softcap = op.attributes.number("softcap");
    check(op, softcap > 0, Code::invalid_argument, "softcap is ", softcap, ", expected more than 0");
  }
  Dims output = q;
  output[last] = v[last];
  add_output(op, op.in(0).dtype, output);
}

// Two products; the exponentials are few against them.
double flops(const Op& op) {
  const Dims &q = op.in(0).shape, &v = op.in(2).shape;
  const int last = q.size() - 1;
  double heads = 1;
  for (int d = 0; d < last - 1; ++d) heads *= double(q[d]);
  return 2.0 * heads * double(q[last - 1]) * double(v[last - 1]) * double(q[last] + v[last]);
}

// Several heads of q share one of k and v: those of k and v repeated.
Derivation::Value repeated_heads(Derivation& d, Derivation::Value value, int64_t heads) {
  const Dims shape = d.desc(value).shape;
  const int at = shape.size() - 3;
  Dims apart(shape.begin(), size_t(at + 1)), joined = shape;
  apart.push_back(1);
  for (int i = at + 1; i < shape.size(); ++i) apart.push_back(shape[i]);
  Dims repeated = apart;
  repeated[at + 1] = heads / std::max<int64_t>(shape[at], 1);
  joined[at] = heads;
  return d.reshaped(d.expanded(d.reshaped(value, apart), repeated), joined);
}

Derivation::Value summed_heads(Derivation& d, Derivation::Value value, const Dims& shape) {
  const int at = shape.size() - 3;
  const Dims joined = d.desc(value).shape;
  if (joined == shape) return value;
  Dims apart(shape.begin(), size_t(at + 1));
  apart.push_back(joined[at] / shape[at]);
  for (int i = at + 1; i < shape.size(); ++i) apart.push_back(shape[i]);
  return d.summed(d.reshaped(value, apart), {at + 1}, false);
}

// The scores are computed again, as a tensor.
void derive(Derivation& d) {
  const Op& op = d.op();
  const Attributes& a = op.attributes;
  const auto product = [&](Derivation::Value left, Derivation::Value right, bool transpose_a, bool transpose_b) {
    return d.make("matmul", attributes_of({{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}), {left, right});
  };
  const int last = op.in(0).rank() - 1;
  const bool grouped = a.flag("enable_gqa") && op.in(0).shape[last - 2] != op.in(1).shape[last - 2];
  const double scale = a.number("scale"), softcap = a.is_none("softcap") ? 0 : a.number("softcap");
  const Derivation::Value q = d.input(0), g = d.gradient();
  const Derivation::Value k = grouped ? repeated_heads(d, d.input(1), op.in(0).shape[last - 2]) : d.input(1);
  const Derivation::Value v = grouped ? repeated_heads(d, d.input(2), op.in(0).shape[last - 2]) : d.input(2);
  const Derivation::Value plain = product(q, k, false, true);
  Derivation::Value scores =
      d.pointwise(softcap > 0 ? "y0 = s1 * tanh(x0 * s0 / s1)" : "y0 = x0 * s0", {plain}, {scale, softcap});
  if (op.has(3)) {
    const bool boolean = op.in(3).dtype == DType::boolean;
    scores = d.pointwise(boolean ? "y0 = where(x1 != 0, x0, -inf)" : "y0 = x0 + x1", {scores, d.input(3)});
  }
  if (a.flag("is_causal")) {  // numbers of rows and columns, as sums of ones
    const Derivation::Value ones = d.pointwise("y0 = 1", {scores});
    const Derivation::Value row = d.make("cumsum", attributes_of({{"dim", int64_t(last - 1)}}), {ones});
    const Derivation::Value column = d.make("cumsum", attributes_of({{"dim", int64_t(last)}}), {ones});
    scores = d.pointwise("y0 = where(x2 <= x1, x0, -inf)", {scores, row, column});
  }
  Derivation::Value weights = d.make("softmax", attributes_of({{"dim", int64_t(last)}}), {scores});
  // Of a query that sees no key.
  if (op.has(3)) weights = d.pointwise("y0 = where(isnan(x0), 0, x0)", {weights});
  d.give_if_wanted(2, [&] { return summed_heads(d, product(weights, g, true, false), op.in(2).shape); });
  if (!d.wanted(0) && !d.wanted(1) && !(op.has(3) && d.wanted(3))) return;
  const Derivation::Value of_weights = product(g, v, false, true);
  const Derivation::Value sums = d.summed(d.make("mul", {}, {of_weights, weights}), {last}, true);
  const Derivation::Value of_scores = d.pointwise("y0 = x1 * (x0 - x2)", {of_weights, weights, sums});
  d.give_if_wanted(3, [&] { return d.summed_to(of_scores, op.in(3).shape); });
  const Derivation::Value of_plain =
      d.pointwise(softcap > 0 ? "t = tanh(x1 * s0 / s1); y0 = x0 * s0 * (1 - t * t)" : "y0 = x0 * s0",
                  {of_scores, plain}, {scale, softcap});
  d.give_if_wanted(0, [&] { return product(of_plain, k, false, false); });
  d.give_if_wanted(1, [&] { return summed_heads(d, product(of_plain, q, true, false), op.in(1).shape); });
}

Schema scaled_dot_product_attention() {
  Schema schema(
      "scaled_dot_product_attention", "attention",
      "Attention: means of values, weighted by how well their keys fit a query.\n\n"
      "y = softmax(scale * q @ k^T + mask) @ v\n\n"
      "over the last two dimensions; the scores are never kept as a tensor.  Where attn_mask is bool, keys at "
      "False take no part; a floating one is added to the scores.  With is_causal a query sees the keys of "
      "its own number and before.  A query that sees no key gives zeros.  With enable_gqa several heads of q, which "
      "follow each other, share one of k and v.  A softcap limits the scores before the mask: "
      "softcap * tanh(scale * q @ k^T / softcap).\n\n"
      "Returns (..., l, ev) in the dtype of q; sums are kept in at least f32.\n\n"
      "Source: A. Vaswani et al., arXiv 1706.03762; semantics of "
      "torch.nn.functional.scaled_dot_product_attention; one pass over blocks of keys: T. Dao et al., arXiv "
      "2205.14135.");
  schema.tensor("q", "queries (..., l, e), most often (n, heads, l, e); f32, f16 or bf16")
      .tensor("k", "keys (..., s, e)")
      .tensor("v", "values (..., s, ev)")
      .optional("attn_mask", "broadcasts to (..., l, s); bool or the dtype of q")
      .attribute("scale", AttributeType::number, None{}, "factor of the scores; None: 1 / sqrt(e)")
      .attribute("is_causal", AttributeType::boolean, false, "query i sees keys 0 to i only")
      .attribute("enable_gqa", AttributeType::boolean, false,
                 "k and v have fewer heads, the dimension before the last two, whose number divides that of q")
      .attribute("softcap", AttributeType::number, None{}, "the limit of scores, more than 0; None: there is none");
  schema.infer = infer;
  schema.flops = flops;
  schema.products = true;
  schema.gradient = derive;
  return schema;
}

PL_REGISTER_OP(scaled_dot_product_attention);

}  // namespace
}  // namespace pl
