// scaled_dot_product_attention: the heart of transformers, without the scores as a tensor; and its gradients alike.
#include "ops/attention.h"

#include <cmath>

#include "ops/gradient.h"

namespace pl {
namespace {

constexpr int kMask = 3, kSeed = 4, kSinks = 5, kGradOfBackward = 3, kMaskOfBackward = 4;  // the seed follows the mask

// Checks inputs and completes attributes; the shape of the result.
Dims checked_shape(Op& op, int mask_index) {
  check_rank(op, 0, 2, kMaxRank);
  const Dims &q = op.in(0).shape, &k = op.in(1).shape, &v = op.in(2).shape;
  const int rank = q.size(), rows = rank - 2, last = rank - 1;
  const bool grouped = op.attributes[attr::enable_gqa];
  check(op, !grouped || rank >= 3, Code::shape, "q has rank ", rank, ", expected at least 3 where enable_gqa is true");
  for (int i = 1; i < 3; ++i) {
    check_rank(op, i, rank, rank);
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
  if (op.has(mask_index)) {
    const TensorDesc& mask = op.in(mask_index);
    Dims scores = q;
    scores[last] = k[rows];
    check(op, mask.rank() <= rank, Code::shape, "attn_mask has rank ", mask.rank(), ", expected at most ", rank);
    for (int d = 0; d < mask.rank(); ++d)
      check(op, mask.shape[d] == 1 || mask.shape[d] == scores[rank - mask.rank() + d], Code::shape,
            "attn_mask has shape ", mask.shape, ", which does not broadcast to ", scores);
  }
  if (op.attributes.is_none(attr::scale)) {
    op.attributes.set(attr::scale, 1.0 / std::sqrt(double(q[last])));
  } else {
    check_finite(op, attr::scale);
  }
  if (!op.attributes.is_none(attr::softcap)) {
    check_finite(op, attr::softcap);
    const double softcap = op.attributes[attr::softcap];
    check(op, softcap > 0, Code::invalid_argument, "softcap is ", softcap, ", expected more than 0");
  }
  const int seed = mask_index + 1;
  const double dropped = op.attributes[attr::dropout_p];
  check(op, dropped >= 0 && dropped < 1, Code::invalid_argument, "dropout_p is ", dropped,
        ", expected 0 to less than 1");
  check(op, op.has(seed) == (dropped > 0), Code::invalid_argument, "seed is ", op.has(seed) ? "given" : "missing",
        ", expected with dropout_p more than 0 alone (dropout_p is ", dropped, ")");
  if (op.has(seed)) check_seed(op, seed);
  Dims output = q;
  output[last] = v[last];
  return output;
}

void infer_attention(Op& op) {
  const Dims shape = checked_shape(op, kMask);
  if (op.has(kSinks)) {
    const Dims& sinks = op.in(kSinks).shape;
    Dims queries = op.in(0).shape;
    queries[queries.size() - 1] = 1;
    const int added = queries.size() - sinks.size();
    bool fits = added >= 0;
    for (int d = 0; fits && d < sinks.size(); ++d) fits = sinks[d] == 1 || sinks[d] == queries[added + d];
    check(op, fits, Code::shape, "sinks has shape ", sinks, ", which does not broadcast to ", queries);
  }
  add_output(op, shape);
}

void infer_attention_backward(Op& op) {
  const Dims shape = checked_shape(op, kMaskOfBackward);
  check_shape(op, kGradOfBackward, shape, "that of the result of scaled_dot_product_attention");
  for (int i = 0; i < 3; ++i) add_output(op);
}

// Two products; the exponentials are few against them.
double attention_flops(const Op& op) {
  const Dims &q = op.in(0).shape, &v = op.in(2).shape;
  const int last = q.size() - 1;
  double heads = 1;
  for (int d = 0; d < last - 1; ++d) heads *= double(q[d]);
  return 2.0 * heads * double(q[last - 1]) * double(v[last - 1]) * double(q[last] + v[last]);
}

Attributes given_attributes(const Op& op) {
  Attributes attributes;
  for (const AttributeName& name : std::initializer_list<AttributeName>{attr::scale, attr::is_causal, attr::enable_gqa,
                                                                        attr::softcap, attr::dropout_p})
    if (!op.attributes.is_none(name)) attributes.take(op.attributes, {name});
  return attributes;
}

void derive_attention(Derivation& d) {
  const Op& op = d.op();
  const bool by_mask = op.has(kMask) && d.wanted(kMask);
  if (by_mask || op.has(kSinks)) {
    const AttentionInputs inputs{d.input(0), d.input(1), d.input(2), d.input(kMask), d.input(kSeed), d.input(kSinks)};
    const bool by_sinks = op.has(kSinks) && d.wanted(kSinks);
    const AttentionGradients made = attention_gradients(d, op, inputs, d.gradient(), by_mask, by_sinks);
    for (int i = 0; i < 3; ++i) d.give_if_wanted(i, [&] { return made[size_t(i)]; });
    d.give_if_wanted(kMask, [&] { return made[3]; });
    return d.give_if_wanted(kSinks, [&] { return made[4]; });
  }
  const auto made = d.add("scaled_dot_product_attention_backward", given_attributes(op),
                          {d.input(0), d.input(1), d.input(2), d.gradient(), d.input(kMask), d.input(kMask + 1)});
  for (int i = 0; i < 3; ++i) d.give_if_wanted(i, [&] { return made[size_t(i)]; });
}

// Five products in the place of two.
double attention_backward_flops(const Op& op) { return 2.5 * attention_flops(op); }

void add_attention_attributes(Schema& schema) {
  schema.attribute(attr::scale, None{}, "factor of the scores; None: 1 / sqrt(e)")
      .attribute(attr::is_causal, false, "query i sees keys 0 to i only")
      .attribute(attr::enable_gqa, false,
                 "k and v have fewer heads, the dimension before the last two, whose number divides that of q")
      .attribute(attr::softcap, None{}, "the limit of scores, more than 0; None: there is none")
      .attribute(attr::dropout_p, 0.0, "share of weights that are dropped, 0 to less than 1");
}

void add_seed(Schema& schema) {
  schema
      .optional(
          "seed",
          "one or two elements, s64, as of random_dropout, where dropout_p is more than 0: which weights are dropped")
      .of({DType::s64});
}

Schema scaled_dot_product_attention() {
  Schema schema(
      "scaled_dot_product_attention", "attention",
      "Attention: means of values, weighted by how well their keys fit a query.\n\n"
      "y = softmax(scale * q @ k^T + mask) @ v\n\n"
      "over the last two dimensions; the scores are never kept as a tensor.  Where attn_mask is bool, keys at "
      "False take no part; a floating one is added to the scores.  With is_causal a query sees the keys of "
      "its own number and before.  A query that sees no key gives zeros.  Where a mask hides all of its keys by one "
      "large number instead, they count alike as far as their scores are below the rounding of that number in f32 (of "
      "-1e9: 64, of f32's lowest: all).  With enable_gqa several heads of q, which "
      "follow each other, share one of k and v.  A softcap limits the scores before the mask: "
      "softcap * tanh(scale * q @ k^T / softcap).  With dropout_p the weights, which softmax gives, go through "
      "random_dropout(weights, seed, dropout_p) before they are multiplied by v.  Sinks are one score more for each "
      "query: it takes its part in the softmax and has no value.\n\n"
      "Returns (..., l, ev) in the dtype of q; sums are kept in at least f32.\n\n"
      "Source: A. Vaswani et al., arXiv 1706.03762; semantics of "
      "torch.nn.functional.scaled_dot_product_attention; one pass over blocks of keys: T. Dao et al., arXiv "
      "2205.14135.");
  schema.tensor("q", "queries (..., l, e), most often (n, heads, l, e); f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("k", "keys (..., s, e)")
      .like("q")
      .batched()
      .tensor("v", "values (..., s, ev)")
      .like("q")
      .batched()
      .optional("attn_mask", "broadcasts to (..., l, s); bool or the dtype of q")
      .like_or("q", {DType::boolean})
      .batched(Batch::broadcast);
  add_seed(schema);
  schema.batched(Batch::mixes)
      .optional("sinks", "broadcasts to (..., l, 1): a score that takes part of the weights and has no value")
      .like("q")
      .batched(Batch::broadcast)
      .result(Result("y").like("q"));
  add_attention_attributes(schema);
  schema.last_axes = 2;
  schema.infer = infer_attention;
  schema.flops = attention_flops;
  schema.products = true;
  schema.gradient = derive_attention;
  return schema;
}

Schema scaled_dot_product_attention_backward() {
  Schema schema(
      "scaled_dot_product_attention_backward", "attention_backward",
      "The gradients of scaled_dot_product_attention by q, k and v.\n\n"
      "With p = softmax(scale * q @ k^T + mask) and g = grad @ v^T: dv = p^T @ grad, "
      "ds = scale * p * (g - sum(p * g)) with sums over keys, dq = ds @ k, dk = ds^T @ q; the scores are never kept as "
      "a tensor.  A softcap multiplies ds by 1 - (score / softcap)^2.  With dropout_p the weights in dv and g go "
      "through random_dropout(., seed, dropout_p).\n\n"
      "Returns dq, dk and dv, of the shapes and dtype of q, k and v; sums are kept in at least f32.\n\n"
      "Source: the derivative of the formula; by blocks: T. Dao et al., arXiv 2205.14135.");
  schema.tensor("q", "queries (..., l, e); f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("k", "keys (..., s, e)")
      .like("q")
      .tensor("v", "values (..., s, ev)")
      .like("q")
      .tensor("grad", "(..., l, ev): the gradient by the result")
      .like("q")
      .optional("attn_mask", "as for scaled_dot_product_attention")
      .like_or("q", {DType::boolean});
  add_seed(schema);
  schema.result(Result("dq").like("q").shaped("q"))
      .result(Result("dk").like("q").shaped("k"))
      .result(Result("dv").like("q").shaped("v"));
  add_attention_attributes(schema);
  schema.infer = infer_attention_backward;
  schema.flops = attention_backward_flops;
  schema.products = true;
  return schema;
}

PL_REGISTER_OP(scaled_dot_product_attention);
PL_REGISTER_OP(scaled_dot_product_attention_backward);

}  // namespace
}  // namespace pl
