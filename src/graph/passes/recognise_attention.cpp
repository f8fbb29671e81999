// recognise_attention: two products with a softmax between them become scaled_dot_product_attention, which keeps no
// scores.
//
// What is added to the scores may be several things, with reshapes between them that split and join the dimensions
// before the last two: the windows of a Swin transformer add a bias by head to (n * windows, heads, l, s), then, seen
// as (n, windows, heads, l, s), a mask by window.  All of it becomes one mask, for the finest of these views.
#include <algorithm>

#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/view_chain.h"

namespace pl::passes {
namespace {

// A matmul that nothing was fused into.
bool is_bare(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  return node.schema->kind == "matmul" && node.inputs.size() == 2 && !rewriter.has_activation(index);
}

// Takes factors that are numbers off a value: returns what is left, and multiplies them into `scale`.
ValueId without_factor(Rewriter& rewriter, ValueId id, double& scale) {
  for (int index = rewriter.sole_maker(id, "binary"); index >= 0; index = rewriter.sole_maker(id, "binary")) {
    const Node& node = rewriter.node(size_t(index));
    const bool divides = node.schema->name == "div";
    if ((!divides && node.schema->name != "mul") || rewriter.has_activation(size_t(index))) return id;
    ValueId rest = kNoValue;
    for (size_t k = 0; k < (divides ? 1 : 2); ++k) {
      const auto number = rewriter.number(rewriter.input(node, 1 - k));
      const ValueId x = rewriter.input(node, k);
      if (!number || rewriter.shape(x) != rewriter.shape(id)) continue;
      scale *= divides ? 1 / *number : *number;
      rest = x;
      break;
    }
    if (rest == kNoValue) return id;
    id = rest;
  }
  return id;
}

// The dimensions of a permute that swaps the last two.
Attributes swap_last(int rank) {
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(i);
  std::swap(dims[size_t(rank) - 1], dims[size_t(rank) - 2]);
  Attributes attributes;
  attributes.set("dims", dims);
  return attributes;
}

struct Scores {
  ValueId q = kNoValue, k = kNoValue;
  bool k_transposed = false;  // k is (..., e, s)
  double scale = 1;
};

// scale * q @ k^T, if the value is that.
std::optional<Scores> scores_of(Rewriter& rewriter, ValueId id) {
  Scores scores;
  id = without_factor(rewriter, id, scores.scale);
  const int index = rewriter.sole_maker(id, "matmul");
  if (index < 0 || !is_bare(rewriter, size_t(index))) return std::nullopt;
  const Op op = rewriter.op(size_t(index));
  if (op.attributes.flag("transpose_a")) return std::nullopt;
  scores.k_transposed = !op.attributes.flag("transpose_b");
  const Node& node = rewriter.node(size_t(index));
  scores.q = without_factor(rewriter, rewriter.input(node, 0), scores.scale);
  scores.k = without_factor(rewriter, rewriter.input(node, 1), scores.scale);
  return scores;
}

constexpr int kMostTerms = 8;                       // sums and reshapes between the products
constexpr int64_t kLargestMask = int64_t(4) << 20;  // elements of a mask that is put together here

struct Term {
  ValueId mask = kNoValue;
  Dims scores;  // the shape of what it is added to
};

// Goes back from the softmax to the first product, over sums (noted in `terms`) and reshapes (their shapes in `views`)
// that leave the last two dimensions alone.
std::optional<Scores> find_scores(Rewriter& rewriter, ValueId id, std::vector<Term>& terms, std::vector<Dims>& views) {
  views.push_back(rewriter.shape(id));
  if (auto scores = scores_of(rewriter, id)) return scores;
  if (int(terms.size() + views.size()) > kMostTerms) return std::nullopt;
  const Dims shape = rewriter.shape(id);
  const int sum = rewriter.sole_maker(id, "binary");
  if (sum >= 0) {
    if (rewriter.node(size_t(sum)).schema->name != "add" || rewriter.has_activation(size_t(sum))) return std::nullopt;
    for (size_t k = 0; k < 2; ++k) {
      const ValueId rest = rewriter.input(rewriter.node(size_t(sum)), k);
      const ValueId mask = rewriter.input(rewriter.node(size_t(sum)), 1 - k);
      if (rewriter.shape(rest) != shape || rewriter.is_constant(rest)) continue;
      const size_t terms_before = terms.size(), views_before = views.size();
      terms.push_back({mask, shape});
      if (auto scores = find_scores(rewriter, rest, terms, views)) return scores;
      terms.resize(terms_before);
      views.resize(views_before);
    }
    return std::nullopt;
  }
  const int maker = rewriter.maker(id);
  if (maker < 0 || rewriter.uses(id) != 1 || !is_reshape(rewriter.node(size_t(maker)))) return std::nullopt;
  const ValueId source = rewriter.input(rewriter.node(size_t(maker)), 0);
  const Dims& before = rewriter.shape(source);
  const int rank = shape.size(), rank_before = before.size();
  if (rank < 2 || rank_before < 2 || before[rank_before - 1] != shape[rank - 1] ||
      before[rank_before - 2] != shape[rank - 2])
    return std::nullopt;
  return find_scores(rewriter, source, terms, views);
}

// The shape in which a mask of this shape, that broadcasts to `scores`, broadcasts to `fine`, a view of them whose
// dimensions are the same ones or parts of them.
std::optional<Dims> mask_for(const Dims& mask, const Dims& scores, const Dims& fine) {
  Dims result;
  int next = 0;
  const int rank = scores.size(), fine_rank = fine.size();
  for (int d = 0; d < rank; ++d) {
    const int at = d - (rank - mask.size());
    const bool broadcast = at < 0 || mask[at] == 1;
    int64_t product = 1;
    while (next < fine_rank && (product < scores[d] || (d == rank - 1 && next < fine_rank))) {
      product *= fine[next];
      result.push_back(broadcast ? 1 : fine[next]);
      ++next;
    }
    if (product != scores[d]) return std::nullopt;
  }
  if (next != fine_rank) return std::nullopt;
  return result;
}

// The sum of two constants that broadcast to each other, of rank `rank` both.
TensorRef sum_of(Context& context, DType dtype, const Dims& a_shape, const std::vector<double>& a, const Dims& b_shape,
                 const std::vector<double>& b, const Dims& shape) {
  std::vector<double> values(size_t(shape.product()));
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t rest = int64_t(i), in_a = 0, in_b = 0, step_a = 1, step_b = 1;
    for (int d = shape.size() - 1; d >= 0; --d) {
      const int64_t at = rest % shape[d];
      rest /= shape[d];
      in_a += a_shape[d] == 1 ? 0 : at * step_a;
      in_b += b_shape[d] == 1 ? 0 : at * step_b;
      step_a *= a_shape[d];
      step_b *= b_shape[d];
    }
    values[i] = a[size_t(in_a)] + b[size_t(in_b)];
  }
  return tensor_of(context, dtype, shape, values);
}

// One mask in the place of all terms, broadcasting to `fine`; inserted before node `index`.
ValueId joined_mask(Rewriter& rewriter, Context& context, size_t index, const std::vector<Term>& terms,
                    const std::vector<Dims>& shapes) {
  ValueId joined = kNoValue;
  for (size_t i = 0; i < terms.size(); ++i) {
    ValueId mask = terms[i].mask;
    const DType dtype = rewriter.desc(mask).dtype;
    if (rewriter.shape(mask) != shapes[i]) {
      if (rewriter.is_constant(mask)) {
        mask = rewriter.add_constant("mask", tensor_of(context, dtype, shapes[i], numbers_of(rewriter.constant(mask))));
      } else {
        Attributes attributes;
        attributes.set("shape", shapes[i].vector());
        mask = rewriter.insert(index, "reshape", attributes, {mask}, "");
      }
    }
    if (joined == kNoValue) {
      joined = mask;
      continue;
    }
    const Dims one = rewriter.shape(joined), other = rewriter.shape(mask);
    Dims both = one;
    for (int d = 0; d < both.size(); ++d) both[d] = std::max(one[d], other[d]);
    if (rewriter.is_constant(joined) && rewriter.is_constant(mask) && both.product() <= kLargestMask)
      joined = rewriter.add_constant("mask", sum_of(context, dtype, one, numbers_of(rewriter.constant(joined)), other,
                                                    numbers_of(rewriter.constant(mask)), both));
    else
      joined = rewriter.insert(index, "add", Attributes(), {joined, mask}, "");
  }
  return joined;
}

void recognise(Rewriter& rewriter, Context& context, size_t index) {
  if (!is_bare(rewriter, index)) return;
  const Node& node = rewriter.node(index);
  const Op product = rewriter.op(index);
  if (product.attributes.flag("transpose_a") || product.attributes.flag("transpose_b")) return;
  const ValueId weights = rewriter.input(node, 0), v = rewriter.input(node, 1);
  const int softmax = rewriter.sole_maker(weights, "softmax");
  if (softmax < 0) return;
  const Op normalise = rewriter.op(size_t(softmax));
  const int rank = normalise.in(0).rank();
  if (normalise.attributes.flag("log") || normalise.attributes.integer("dim") != rank - 1) return;
  std::vector<Term> terms;
  std::vector<Dims> views;
  const auto scores = find_scores(rewriter, rewriter.input(rewriter.node(size_t(softmax)), 0), terms, views);
  if (!scores) return;
  // No broadcasting between q, k and v, and the scores reach the softmax in the shape in which they are made.
  const Dims q = rewriter.shape(scores->q), k = rewriter.shape(scores->k), values = rewriter.shape(v);
  if (rank < 2 || q.size() != rank || k.size() != rank || values.size() != rank || views.back() != views.front() ||
      views.back().product() == 0)
    return;
  for (int i = 0; i < rank - 2; ++i)
    if (q[i] != k[i] || q[i] != values[i]) return;
  // The view of most dimensions in which something is added; the scores' own if that will do.
  Dims fine = views.back();
  for (const Term& term : terms)
    if (term.scores.size() > fine.size()) fine = term.scores;
  std::vector<Dims> masks;
  for (const Term& term : terms) {
    const auto shape = mask_for(rewriter.shape(term.mask), term.scores, fine);
    if (!shape) return;
    masks.push_back(*shape);
  }
  const auto whole = mask_for(views.back(), views.back(), fine);  // whether q, k and v can be seen so too
  if (!whole || *whole != fine) return;
  ValueId mask = kNoValue;
  if (terms.size() == 1 && fine == views.back())
    mask = terms[0].mask;
  else if (!terms.empty())
    mask = joined_mask(rewriter, context, index, terms, masks);
  ValueId keys = scores->k;
  if (scores->k_transposed) keys = rewriter.insert(index, "permute", swap_last(rank), {keys}, "");
  Attributes attributes;
  attributes.set("scale", scores->scale);
  if (fine == views.back()) {
    rewriter.rewrite(index, "scaled_dot_product_attention", attributes, {scores->q, keys, v, mask});
    return;
  }
  const auto seen = [&](ValueId id) {
    const Dims& shape = rewriter.shape(id);
    Dims target = fine;
    for (int i : {1, 2}) target[target.size() - i] = shape[shape.size() - i];
    Attributes reshape;
    reshape.set("shape", target.vector());
    return rewriter.insert(index, "reshape", reshape, {id}, "");
  };
  const std::vector<ValueId> parts = {seen(scores->q), seen(keys), seen(v), mask};
  const Dims result = rewriter.shape(node.outputs[0]);
  const ValueId attended = rewriter.insert(index, "scaled_dot_product_attention", attributes, parts, node.name);
  Attributes reshape;
  reshape.set("shape", result.vector());
  rewriter.rewrite(index, "reshape", reshape, {attended});
}

int run(Graph& graph, Context& context) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) { recognise(rewriter, context, index); });
}

}  // namespace

Pass recognise_attention() {
  return {
      "recognise_attention",
      "Recognises softmax(scale * q @ k^T + mask) @ v, the factor in any place, as scaled_dot_product_attention; the "
      "mask may be several terms, added to the scores in several views of their first dimensions.  A "
      "result changes by roundings of its dtype; a query whose mask is -infinity throughout gives zeros where it "
      "gave NaN.",
      run};
}

}  // namespace pl::passes
