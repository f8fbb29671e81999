// recognise_attention: two products with a softmax between them become scaled_dot_product_attention, which keeps no
// scores.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

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

void recognise(Rewriter& rewriter, size_t index) {
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
  const ValueId logits = rewriter.input(rewriter.node(size_t(softmax)), 0);
  ValueId mask = kNoValue;
  auto scores = scores_of(rewriter, logits);
  if (!scores) {
    const int sum = rewriter.sole_maker(logits, "binary");
    if (sum < 0 || rewriter.node(size_t(sum)).schema->name != "add" || rewriter.has_activation(size_t(sum))) return;
    for (size_t k = 0; k < 2 && !scores; ++k) {
      const ValueId term = rewriter.input(rewriter.node(size_t(sum)), k);
      if (rewriter.shape(term) != rewriter.shape(logits)) continue;
      scores = scores_of(rewriter, term);
      mask = rewriter.input(rewriter.node(size_t(sum)), 1 - k);
    }
    if (!scores) return;
  }
  // No broadcasting between q, k and v.
  const Dims &q = rewriter.shape(scores->q), &k = rewriter.shape(scores->k), &values = rewriter.shape(v);
  if (rank < 2 || q.size() != rank || k.size() != rank || values.size() != rank) return;
  for (int i = 0; i < rank - 2; ++i)
    if (q[i] != k[i] || q[i] != values[i]) return;
  if (scores->k_transposed) scores->k = rewriter.insert(index, "permute", swap_last(rank), {scores->k}, "");
  Attributes attributes;
  attributes.set("scale", scores->scale);
  rewriter.rewrite(index, "scaled_dot_product_attention", attributes, {scores->q, scores->k, v, mask});
}

int run(Graph& graph, Context&) { return sweep(graph, recognise); }

}  // namespace

Pass recognise_attention() {
  return {
      "recognise_attention",
      "Recognises softmax(scale * q @ k^T + mask) @ v, the factor in any place, as scaled_dot_product_attention.  A "
      "result changes by roundings of its dtype; a query whose mask is -infinity throughout gives zeros where it "
      "gave NaN.",
      run};
}

}  // namespace pl::passes
