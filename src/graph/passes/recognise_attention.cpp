// recognise_attention: two products with a softmax between them become scaled_dot_product_attention, which keeps no
// scores.
//
// What is added to the scores may be several things, with reshapes between them that split and join the dimensions
// before the last two: the windows of a Swin transformer add a bias by head to (n * windows, heads, l, s), then, seen
// as (n, windows, heads, l, s), a mask by window.  All of it becomes one mask, for the finest of these views
// (graph/passes/attention_mask.h).
//
// Heads of keys and values that are repeated for groups of queries are given once (enable_gqa), whatever the views
// between the expand and the product.
#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/passes/attention_mask.h"
#include "graph/passes/attention_weights.h"
#include "graph/passes/combined_views.h"
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// A matmul that nothing was fused into.
bool is_bare(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  return is_matrix_product(node) && node.inputs.size() == 2 && !rewriter.has_post_ops(index);
}

// Takes factors that are numbers off a value: returns what is left, and multiplies them into `scale`.
ValueId without_factor(Rewriter& rewriter, ValueId id, double& scale) {
  for (int index = rewriter.sole_maker(id); index >= 0; index = rewriter.sole_maker(id)) {
    const Node& node = rewriter.node(size_t(index));
    const bool divides = is_bare(rewriter, size_t(index), Operation::quotient);
    if (!divides && !is_bare(rewriter, size_t(index), Operation::product)) return id;
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
std::vector<int64_t> swapped_dims(int rank) {
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(i);
  std::swap(dims[size_t(rank) - 1], dims[size_t(rank) - 2]);
  return dims;
}

Attributes swap_last(int rank) { return Attributes{{attr::dims, swapped_dims(rank)}}; }
bool swaps_last(const Op& permute) {
  const int rank = permute.in(0).rank();
  return rank >= 2 && permute.attributes[attr::dims] == swapped_dims(rank);
}

// Added to a score of f32, a number below this leaves nothing of it.
constexpr double kAbsorbing = -1e30;
constexpr int kMostOpsBetweenProducts = 8;  // sums, choices and reshapes between the products

struct Scores {
  ValueId q = kNoValue, k = kNoValue;
  bool q_transposed = false, k_transposed = false;  // (..., e, l), (..., e, s)
  double scale = 1;
  std::optional<double> softcap;
  std::vector<ValueId> row_factors;  // that the scores are multiplied by, the same for all keys
};

// The other operand of the product that makes `id`, where it has one factor for each row of it, at most.
ValueId row_factor(Rewriter& rewriter, ValueId id, ValueId& rest) {
  const int index = sole_maker(rewriter, id, Operation::product);
  if (index < 0) return kNoValue;
  for (size_t k = 0; k < 2; ++k) {
    const ValueId factor = rewriter.input(rewriter.node(size_t(index)), 1 - k);
    rest = rewriter.input(rewriter.node(size_t(index)), k);
    const Dims& shape = rewriter.shape(factor);
    if (rewriter.shape(rest) == rewriter.shape(id) && shape.size() > 0 && shape[shape.size() - 1] == 1) return factor;
  }
  return kNoValue;
}

// scale * q @ k^T, limited or not, if the value is that.  Views of heads between the limit and the product are noted
// in `views`.
std::optional<Scores> scores_of(Rewriter& rewriter, ValueId id, std::vector<Dims>& views) {
  Scores scores;
  id = without_factor(rewriter, id, scores.scale);
  if (const int limit = sole_maker(rewriter, id, "tanh"); limit >= 0 && scores.scale > 0) {
    scores.softcap = scores.scale;
    id = without_factor(rewriter, rewriter.input(rewriter.node(size_t(limit)), 0), scores.scale);
    for (ValueId seen = before_view_of_heads(rewriter, id); seen != id; seen = before_view_of_heads(rewriter, id)) {
      views.push_back(rewriter.shape(seen));
      id = without_factor(rewriter, seen, scores.scale);
    }
  }
  for (ValueId rest = kNoValue; scores.row_factors.size() < 2;) {
    const ValueId factor = row_factor(rewriter, id, rest);
    if (factor == kNoValue) break;
    scores.row_factors.push_back(factor);
    id = without_factor(rewriter, rest, scores.scale);
  }
  const int index = rewriter.sole_maker(id);
  if (index < 0 || !is_bare(rewriter, size_t(index))) return std::nullopt;
  const Op op = rewriter.op(size_t(index));
  scores.q_transposed = op.attributes[attr::transpose_a];
  scores.k_transposed = !op.attributes[attr::transpose_b];
  const Node& node = rewriter.node(size_t(index));
  scores.q = without_factor(rewriter, rewriter.input(node, 0), scores.scale);
  scores.k = without_factor(rewriter, rewriter.input(node, 1), scores.scale);
  return scores;
}

// What is done to a value before the softmax: it is multiplied, and limited to what leaves nothing of a score.
struct Applied {
  double factor = 1;
  double least = -kInfinity;
};

// Goes back from the softmax to the first product, over sums, differences and choices (noted in `terms`), what is
// applied to these, and reshapes (their shapes in `views`) that leave the last two dimensions alone.
std::optional<Scores> find_scores(Rewriter& rewriter, ValueId id, std::vector<MaskTerm>& terms,
                                  std::vector<Dims>& views, Applied applied = Applied()) {
  views.push_back(rewriter.shape(id));
  const size_t views_here = views.size();
  if (auto scores = scores_of(rewriter, id, views)) {
    if (applied.factor != 1 && scores->softcap) return std::nullopt;
    scores->scale *= applied.factor;
    return scores;
  }
  views.resize(views_here);
  if (int(terms.size() + views.size()) > kMostOpsBetweenProducts) return std::nullopt;
  const Dims shape = rewriter.shape(id);
  id = without_factor(rewriter, id, applied.factor);
  if (!(applied.factor > 0)) return std::nullopt;
  if (const int limit = rewriter.sole_maker(id); limit >= 0 && applies_function(rewriter.node(size_t(limit)))) {
    const auto range = range_of(function_of(rewriter.op(size_t(limit))));
    if (!range || range->second < kInfinity || range->first * applied.factor > kAbsorbing) return std::nullopt;
    applied.least = std::max(applied.least, range->first * applied.factor);
    return find_scores(rewriter, rewriter.input(rewriter.node(size_t(limit)), 0), terms, views, applied);
  }
  const int sum = sole_maker(rewriter, id, Operation::sum),
            difference = sole_maker(rewriter, id, Operation::difference);
  if (sum >= 0 || difference >= 0) {
    const Node& node = rewriter.node(size_t(std::max(sum, difference)));
    for (size_t k = 0; k < (sum >= 0 ? 2 : 1); ++k) {
      const ValueId rest = rewriter.input(node, k), mask = rewriter.input(node, 1 - k);
      if (rewriter.shape(rest) != shape || rewriter.is_constant(rest)) continue;
      const size_t terms_before = terms.size(), views_before = views.size();
      terms.push_back({mask, false, -kInfinity, shape, sum >= 0 ? applied.factor : -applied.factor, applied.least});
      if (auto scores = find_scores(rewriter, rest, terms, views, applied)) return scores;
      terms.resize(terms_before);
      views.resize(views_before);
    }
    return std::nullopt;
  }
  if (const int choice = sole_maker(rewriter, id, is_choice); choice >= 0) {
    const Node& node = rewriter.node(size_t(choice));
    const ValueId condition = rewriter.input(node, 0);
    for (size_t k = 1; k < 3; ++k) {
      const ValueId rest = rewriter.input(node, k);
      const auto number = rewriter.number(rewriter.input(node, 3 - k));
      if (!number || rewriter.shape(rest) != shape) continue;
      if (*number * applied.factor > kAbsorbing) continue;
      terms.push_back({condition, k == 2, std::max(*number * applied.factor, applied.least), shape});
      return find_scores(rewriter, rest, terms, views, applied);
    }
    return std::nullopt;
  }
  const ValueId source = before_view_of_heads(rewriter, id);
  return source == id ? std::nullopt : find_scores(rewriter, source, terms, views, applied);
}

// Keys or values whose heads, the dimension before the last two, are repeated: those there are, as steps from `source`.
struct SharedHeads {
  ValueId source = kNoValue;
  std::vector<CombinedViews::Step> steps;
  Dims shape;
};

std::optional<SharedHeads> shared_heads(Rewriter& rewriter, ValueId id) {
  constexpr int kMostViews = 3;
  ValueId repeated;
  int length;
  const auto combined = CombinedViews::back_from(rewriter, id, kMostViews, repeated, length);
  const Node* repeats = combined ? made_by(rewriter, repeated, is_repeat) : nullptr;
  if (!repeats) return std::nullopt;
  SharedHeads found;
  found.source = rewriter.input(*repeats, 0);
  const Dims &before = rewriter.shape(found.source), &after = rewriter.shape(repeated);
  if (before.size() != after.size()) return std::nullopt;
  int dim = -1;
  for (int d = 0; d < before.size(); ++d) {
    if (before[d] == after[d]) continue;
    if (dim >= 0) return std::nullopt;
    dim = d;
  }
  int factor = -1;
  for (size_t f = 0; f < combined->factors().size(); ++f)
    if (combined->factors()[f].dim == dim) {
      if (factor >= 0) return std::nullopt;  // the repeats are parted
      factor = int(f);
    }
  const std::vector<std::vector<int>>& dims = combined->dims();
  if (factor < 0 || dims.size() < 3) return std::nullopt;
  const std::vector<int>& heads = dims[dims.size() - 3];
  if (heads.empty() || heads.back() != factor) return std::nullopt;
  const CombinedViews shared = combined->with_size(factor, 1);
  const auto steps = shared.steps();
  if (!steps) return std::nullopt;
  found.steps = *steps;
  found.shape = shared.shape();
  return found;
}

// The keys and values of an attention of this rank, where both are repeated from as many heads.
std::optional<std::pair<SharedHeads, SharedHeads>> both_shared(Rewriter& rewriter, ValueId k, ValueId v, int rank) {
  const auto keys = shared_heads(rewriter, k), values = shared_heads(rewriter, v);
  if (!keys || !values || keys->shape.size() != rank || values->shape.size() != rank) return std::nullopt;
  if (keys->shape[rank - 3] != values->shape[rank - 3]) return std::nullopt;
  return std::pair{*keys, *values};
}

// The last two dimensions of `shape` behind the others of `view`.
Dims viewed_as(const Dims& view, const Dims& shape) {
  if (shape.size() < 2) return shape;
  Dims seen = view;
  for (int i : {1, 2}) seen[seen.size() - i] = shape[shape.size() - i];
  return seen;
}

// The product behind the softmax: weights @ v, or the same turned, v^T @ weights^T, as images give it, (n, channels,
// pixels).
struct WeightedValues {
  ValueId weights = kNoValue, v = kNoValue;
  bool v_transposed = false, y_transposed = false;
  AttentionWeights made;  // the weights
  DroppedWeights dropped;
};

std::optional<WeightedValues> weighted_values(Rewriter& rewriter, size_t index) {
  if (!is_bare(rewriter, index)) return std::nullopt;
  const Op product = rewriter.op(index);
  const ValueId left = rewriter.input(rewriter.node(index), 0), right = rewriter.input(rewriter.node(index), 1);
  WeightedValues found;
  found.made = attention_weights(rewriter, left, found.dropped);
  if (found.made.softmax >= 0) {
    if (product.attributes[attr::transpose_a]) return std::nullopt;
    found.weights = left;
    found.v = right;
    found.v_transposed = product.attributes[attr::transpose_b];
    return found;
  }
  found.weights = right;
  found.v = left;
  bool turned = product.attributes[attr::transpose_b];
  if (const int turn = sole_maker(rewriter, right, is_permute); turn >= 0 && swaps_last(rewriter.op(size_t(turn)))) {
    found.weights = rewriter.input(rewriter.node(size_t(turn)), 0);
    turned = !turned;
  }
  if (!turned) return std::nullopt;
  found.v_transposed = !product.attributes[attr::transpose_a];
  found.y_transposed = true;
  found.made = attention_weights(rewriter, found.weights, found.dropped);
  if (found.made.softmax < 0) return std::nullopt;
  return found;
}

// How an attention's inputs are seen.
struct Seen {
  Dims used;              // the sizes of the weights
  bool same_view = true;  // false: scores are made in another view of the dimensions before the last two
  bool grouped = false;   // heads of keys are fewer than those of queries
  std::optional<std::pair<SharedHeads, SharedHeads>> shared;
};

// The weights and the values lie in one view, in which q, k and v are as many, but for heads that are shared.  `made`:
// the sizes in which scores are made.
std::optional<Seen> seen_together(Rewriter& rewriter, const Scores& scores, ValueId weights, ValueId v,
                                  const Dims& made) {
  Seen seen;
  seen.used = rewriter.shape(weights);
  seen.same_view = made == seen.used;
  Dims q = rewriter.shape(scores.q), k = rewriter.shape(scores.k), values = rewriter.shape(v);
  if (!seen.same_view) {
    if (!same_rows(made, seen.used) || viewed_as(made, q) != q || viewed_as(made, k) != k) return std::nullopt;
    q = viewed_as(seen.used, q);
    k = viewed_as(seen.used, k);
  }
  const int rank = q.size();
  if (rank < 2 || k.size() != rank || values.size() != rank) return std::nullopt;
  if (seen.used.product() == 0 || q.product() == 0) return std::nullopt;  // a sum of no products is one, too
  if (seen.same_view) seen.shared = both_shared(rewriter, scores.k, v, rank);
  if (seen.shared) {
    k = seen.shared->first.shape;
    values = seen.shared->second.shape;
  }
  for (int i = 0; i < rank - 2; ++i)
    if (k[i] != values[i] || (i == rank - 3 ? q[i] % k[i] != 0 : q[i] != k[i])) return std::nullopt;
  seen.grouped = rank > 2 && q[rank - 3] != k[rank - 3];
  return seen;
}

// Multiplies and limits the masks as their terms say, so that these need not.
void apply_to_masks(Rewriter& rewriter, Context& context, size_t index, std::vector<MaskTerm>& terms) {
  for (MaskTerm& term : terms) {
    const auto apply = [&](const char* op, double number) {
      const TensorRef scalar = tensor_of(context, rewriter.desc(term.mask).dtype, {}, {number});
      term.mask = rewriter.insert(index, op, Attributes(), {term.mask, rewriter.add_constant(op, scalar)}, "");
    };
    if (const double factor = std::exchange(term.factor, 1); factor != 1) apply("mul", factor);
    if (const double least = std::exchange(term.least, -kInfinity); least > -kInfinity) apply("maximum", least);
  }
}

// The view of most dimensions in which something is added to the scores, their own if that will do, and the sizes of the
// masks in it.  Nothing where not all can be seen so.
struct FineView {
  Dims scores;
  std::vector<Dims> masks;
};
std::optional<FineView> fine_view(Rewriter& rewriter, const std::vector<MaskTerm>& terms, const Dims& used) {
  FineView fine{used, {}};
  for (const MaskTerm& term : terms)
    if (term.scores.size() > fine.scores.size()) fine.scores = term.scores;
  for (const MaskTerm& term : terms) {
    const auto shape = mask_for(rewriter.shape(term.mask), term.scores, fine.scores);
    if (!shape) return std::nullopt;
    fine.masks.push_back(*shape);
  }
  const auto whole = mask_for(used, used, fine.scores);  // whether q, k and v can be seen so, too
  if (!whole || *whole != fine.scores) return std::nullopt;
  return fine;
}

// One mask of all terms; kNoValue where there is none.
ValueId whole_mask(Rewriter& rewriter, Context& context, size_t index, DType dtype, const std::vector<MaskTerm>& terms,
                   const FineView& fine, const Dims& used) {
  if (terms.empty()) return kNoValue;
  const MaskTerm& first = terms[0];
  const bool as_it_is =
      terms.size() == 1 && first.scores == used && fine.scores == used && !first.inverted && first.hidden == -kInfinity;
  return as_it_is ? first.mask : joined_mask(rewriter, context, index, dtype, terms, fine.masks);
}

ValueId reshaped(Rewriter& rewriter, size_t index, ValueId id, const Dims& view) {
  const Attributes reshape{{attr::shape, viewed_as(view, rewriter.shape(id)).vector()}};
  return rewriter.insert(index, "reshape", reshape, {id}, "");
}

// Queries, keys and values as the attention takes them, in the view of the weights.
std::vector<ValueId> queries_keys_values(Rewriter& rewriter, size_t index, const Scores& scores,
                                         const WeightedValues& product, const Seen& seen) {
  ValueId q = scores.q, k = scores.k, v = product.v;
  if (seen.shared) {
    k = insert_steps(rewriter, index, seen.shared->first.source, seen.shared->first.steps);
    v = insert_steps(rewriter, index, seen.shared->second.source, seen.shared->second.steps);
  }
  const auto turned = [&](ValueId id) {
    return rewriter.insert(index, "permute", swap_last(rewriter.shape(id).size()), {id}, "");
  };
  if (scores.q_transposed) q = turned(q);
  if (scores.k_transposed) k = turned(k);
  if (product.v_transposed) v = turned(v);
  for (ValueId factor : scores.row_factors) q = rewriter.insert(index, "mul", Attributes(), {q, factor}, "");
  if (!seen.same_view) {
    q = reshaped(rewriter, index, q, seen.used);
    k = reshaped(rewriter, index, k, seen.used);
  }
  return {q, k, v};
}

// Makes the product the attention of these inputs, which are seen as `fine`, or a view of what it gives.
void become_attention(Rewriter& rewriter, size_t index, const Attributes& attributes, std::vector<ValueId> inputs,
                      const Dims& used, const Dims& fine, bool y_transposed) {
  if (fine != used)
    for (size_t i = 0; i < 3; ++i) inputs[i] = reshaped(rewriter, index, inputs[i], fine);
  if (fine == used && !y_transposed) return rewriter.rewrite(index, "scaled_dot_product_attention", attributes, inputs);
  const Dims result = rewriter.shape(rewriter.node(index).outputs[0]);
  const std::string title = rewriter.node(index).name;
  ValueId y = rewriter.insert(index, "scaled_dot_product_attention", attributes, inputs, title);
  if (y_transposed) {
    if (fine != used) y = reshaped(rewriter, index, y, used);
    return rewriter.rewrite(index, "permute", swap_last(result.size()), {y}, title + ".view");
  }
  rewriter.rewrite(index, "reshape", Attributes{{attr::shape, result.vector()}}, {y}, title + ".view");
}

void recognise_attention_at(Rewriter& rewriter, Context& context, size_t index) {
  const auto product = weighted_values(rewriter, index);
  if (!product) return;
  const auto& [softmax, given_scores, tested, sinks] = product->made;
  std::optional<Rewriter::UncountedUse> test;
  if (tested) test.emplace(rewriter, given_scores);
  const Op normalise = rewriter.op(size_t(softmax));
  if (normalise.attributes[attr::dim] != normalise.in(0).rank() - 1) return;
  std::vector<MaskTerm> found;
  std::vector<Dims> views;
  const auto scores = find_scores(rewriter, given_scores, found, views);
  if (!scores || !std::isfinite(scores->scale) || !std::isfinite(scores->softcap.value_or(1))) return;
  const auto seen = seen_together(rewriter, *scores, product->weights, product->v, views.back());
  if (!seen) return;
  apply_to_masks(rewriter, context, index, found);
  const auto [terms, causal] = simplified_masks(rewriter, context, found);
  const auto fine = fine_view(rewriter, terms, seen->used);
  if (!fine) return;
  const bool whole = fine->scores == seen->used;
  if (seen->grouped && !whole) return;
  if (sinks != kNoValue && (!whole || rewriter.shape(given_scores) != seen->used)) return;
  const ValueId mask = whole_mask(rewriter, context, index, rewriter.desc(scores->q).dtype, terms, *fine, seen->used);
  std::vector<ValueId> inputs = queries_keys_values(rewriter, index, *scores, *product, *seen);
  inputs.push_back(mask);
  Attributes attributes{{attr::scale, scores->scale}};
  if (causal) attributes.set(attr::is_causal, true);
  if (seen->grouped) attributes.set(attr::enable_gqa, true);
  if (scores->softcap) attributes.set(attr::softcap, *scores->softcap);
  const DroppedWeights& dropped = product->dropped;
  if (dropped.p > 0) attributes.set(attr::dropout_p, dropped.p);
  if (dropped.p > 0 || sinks != kNoValue) inputs.push_back(dropped.seed);
  if (sinks != kNoValue) inputs.push_back(sinks);
  become_attention(rewriter, index, attributes, std::move(inputs), seen->used, fine->scores, product->y_transposed);
}

// mul(permute(x), factor), an input of an attention, perhaps in another shape, becomes permute(mul(x, factor')): the
// attention reads x where it lies.  The factor has fewer elements than x.
void before_permute(Rewriter& rewriter, size_t index) {
  for (size_t k = 0; k < 2; ++k) {
    ValueId id = rewriter.input(rewriter.node(index), k);
    for (int view = rewriter.maker(id); view >= 0 && rewriter.uses(id) == 1 && is_reshape(rewriter.node(size_t(view)));
         view = rewriter.maker(id))
      id = rewriter.input(rewriter.node(size_t(view)), 0);
    const int product = sole_maker(rewriter, id, Operation::product);
    if (product < 0) continue;
    for (size_t j = 0; j < 2; ++j) {
      const ValueId viewed = rewriter.input(rewriter.node(size_t(product)), j);
      const ValueId factor = rewriter.input(rewriter.node(size_t(product)), 1 - j);
      const int view = rewriter.maker(viewed);
      if (view < 0 || rewriter.uses(viewed) != 1 || !is_permute(rewriter.node(size_t(view)))) continue;
      const Dims shape = rewriter.shape(id), small = rewriter.shape(factor);
      if (rewriter.shape(viewed) != shape || small == shape) continue;
      const std::vector<int64_t> dims = rewriter.op(size_t(view)).attributes[attr::dims];
      std::vector<int64_t> whole(size_t(shape.size() - small.size()), 1), inverse(dims.size());
      whole.insert(whole.end(), small.begin(), small.end());
      for (size_t i = 0; i < dims.size(); ++i) inverse[size_t(dims[i])] = int64_t(i);
      Attributes reshape, permute, back;
      reshape.set(attr::shape, whole);
      permute.set(attr::dims, inverse);
      back.set(attr::dims, dims);
      const std::string title = rewriter.node(size_t(product)).name;
      const ValueId seen = rewriter.insert(size_t(product), "reshape", reshape, {factor}, "");
      const ValueId turned = rewriter.insert(size_t(product), "permute", permute, {seen}, "");
      const ValueId x = rewriter.input(rewriter.node(size_t(view)), 0);
      const ValueId y = rewriter.insert(size_t(product), "mul", Attributes(), {x, turned}, title);
      rewriter.rewrite(size_t(product), "permute", back, {y}, title + ".view");
      break;
    }
  }
}

// An attention that is given heads of keys and values repeated for groups of queries is given them once.
void share_heads(Rewriter& rewriter, size_t index) {
  std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index));
  const Dims q = rewriter.shape(inputs[0]), k = rewriter.shape(inputs[1]);
  const int rank = q.size();
  if (rank < 3) return;
  const auto shared = both_shared(rewriter, inputs[1], inputs[2], rank);
  if (!shared) return;
  const auto& [keys, values] = *shared;
  const int64_t kept = keys.shape[rank - 3];
  if (kept == 0 || kept == k[rank - 3] || q[rank - 3] % kept != 0) return;
  for (int i = 0; i < rank - 3; ++i)
    if (keys.shape[i] != k[i] || values.shape[i] != k[i]) return;
  Attributes attributes = rewriter.op(index).attributes;
  attributes.set(attr::enable_gqa, true);
  inputs[1] = insert_steps(rewriter, index, keys.source, keys.steps);
  inputs[2] = insert_steps(rewriter, index, values.source, values.steps);
  rewriter.rewrite(index, "scaled_dot_product_attention", attributes, inputs);
}

int run_recognise_attention(Graph& graph, Context& context) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    if (!is_attention(rewriter.node(index))) return recognise_attention_at(rewriter, context, index);
    before_permute(rewriter, index);
    share_heads(rewriter, index);
  });
}

}  // namespace

Pass recognise_attention() {
  return {
      "recognise_attention",
      "Recognises softmax(scale * q @ k^T + mask) @ v, the factor in any place, as scaled_dot_product_attention; the "
      "mask may be several terms, sums, differences or choices, with factors and limits around them, in several views "
      "of the scores' first dimensions; a triangle becomes is_causal, heads that are repeated enable_gqa, a limit "
      "softcap, dropout of the weights dropout_p, a column of scores without values sinks.  A result changes by "
      "roundings of its dtype; a query whose mask is "
      "-infinity throughout gives zeros where it gave NaN.",
      run_recognise_attention};
}

}  // namespace pl::passes
