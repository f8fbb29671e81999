#include "graph/passes/attention_weights.h"

#include <algorithm>

#include "graph/passes/constants.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// Whether a condition holds of rows whose scores are all -infinity, in PyTorch's spelling: not any(not scores == that).
bool tells_empty_rows(Rewriter& rewriter, ValueId condition, ValueId scores) {
  const auto before = [&](ValueId id, auto what) {  // what makes the value reads
    const int index = id == kNoValue ? -1 : sole_maker(rewriter, id, what);
    return index < 0 ? kNoValue : rewriter.input(rewriter.node(size_t(index)), 0);
  };
  const ValueId count = before(before(condition, "logical_not"), is_cast);
  const ValueId equal = before(before(before(count, is_sum), is_cast), "logical_not");
  if (equal == kNoValue) return false;
  const Op sum = rewriter.op(size_t(rewriter.maker(count)));
  if (sum.attributes[attr::dim_ints] != std::vector<int64_t>{sum.in(0).rank() - 1} || !sum.attributes[attr::keepdim])
    return false;
  const int compared = sole_maker(rewriter, equal, is_equality);
  if (compared < 0) return false;
  const std::vector<ValueId> sides = rewriter.inputs(rewriter.node(size_t(compared)));
  for (size_t k = 0; k < 2; ++k)
    if (sides[k] == scores && rewriter.number(sides[1 - k]) == -kInfinity) return true;
  return false;
}

bool is_zero_throughout(Rewriter& rewriter, ValueId id) {
  id = without_repeats(rewriter, id);
  if (!rewriter.is_constant(id)) return false;
  const std::vector<double> numbers = numbers_of(rewriter.constant(id));
  return std::all_of(numbers.begin(), numbers.end(), [](double number) { return number == 0; });
}

// What is dropped of, where the weights are made by that.
ValueId without_dropout(Rewriter& rewriter, ValueId weights, DroppedWeights& dropped) {
  const ValueId made = before_view_of_heads(rewriter, weights);  // numbers of elements are the same in all views
  const int index = sole_maker(rewriter, made, is_dropout);
  if (index < 0) return weights;
  const Node& node = rewriter.node(size_t(index));
  dropped = {rewriter.input(node, 1), rewriter.op(size_t(index)).attributes[attr::p]};
  return rewriter.input(node, 0);
}

// Scores and a column of sinks beside them, of whose weights a slice leaves out the last ones; the largest score of each
// row may have been subtracted first, which changes nothing.
AttentionWeights weights_beside_sinks(Rewriter& rewriter, ValueId weights) {
  const int part = sole_maker(rewriter, weights, is_slice);
  if (part < 0) return {};
  const ValueId whole = rewriter.input(rewriter.node(size_t(part)), 0);
  const int softmax = sole_maker(rewriter, whole, is_softmax);
  if (softmax < 0) return {};
  ValueId scores = rewriter.input(rewriter.node(size_t(softmax)), 0);
  const int last = rewriter.shape(whole).size() - 1;
  int readers = 1;
  if (const int shifted = sole_maker(rewriter, scores, Operation::difference); shifted >= 0) {
    const ValueId x = rewriter.input(rewriter.node(size_t(shifted)), 0),
                  largest = rewriter.input(rewriter.node(size_t(shifted)), 1);
    const int reduced = sole_maker(rewriter, largest, is_maximum);
    if (reduced < 0 || rewriter.shape(x) != rewriter.shape(scores)) return {};
    const Op maximum = rewriter.op(size_t(reduced));
    if (rewriter.input(rewriter.node(size_t(reduced)), 0) != x || !maximum.attributes[attr::keepdim] ||
        maximum.attributes[attr::dim_ints] != std::vector<int64_t>{last})
      return {};
    scores = x;
    readers = 2;
  }
  const Node* joined = made_by(rewriter, scores, is_concat);
  if (!joined || rewriter.uses(scores) != readers || joined->inputs.size() != 2) return {};
  const Op concat = rewriter.op(size_t(rewriter.maker(scores))), slice = rewriter.op(size_t(part));
  Dims left = concat.out().shape;
  left[last] -= 1;
  // The first columns alone: of a slice that takes another part of as many, rows or columns would be missing at the
  // beginning.
  const auto view = slice.schema->view(slice);
  if (!view || view->front().offset != 0 || slice.out().shape != left || concat.in(0).shape != left) return {};
  if (int(concat.attributes[attr::dim]) != last) return {};
  return {softmax, rewriter.input(*joined, 0), false, without_repeats(rewriter, rewriter.input(*joined, 1))};
}

}  // namespace

bool same_rows(const Dims& a, const Dims& b) {
  if (a.size() < 2 || b.size() < 2 || a.product() != b.product()) return false;
  return a[a.size() - 1] == b[b.size() - 1] && a[a.size() - 2] == b[b.size() - 2];
}

ValueId before_view_of_heads(Rewriter& rewriter, ValueId id) {
  const int view = sole_maker(rewriter, id, is_reshape);
  if (view < 0) return id;
  const ValueId x = rewriter.input(rewriter.node(size_t(view)), 0);
  return same_rows(rewriter.shape(x), rewriter.shape(id)) ? x : id;
}

AttentionWeights attention_weights(Rewriter& rewriter, ValueId weights, DroppedWeights& dropped) {
  dropped = {};
  weights = before_view_of_heads(rewriter, without_dropout(rewriter, weights, dropped));
  const int direct = sole_maker(rewriter, weights, is_softmax);
  if (direct >= 0) return {direct, rewriter.input(rewriter.node(size_t(direct)), 0), false, kNoValue};
  if (const AttentionWeights beside = weights_beside_sinks(rewriter, weights); beside.softmax >= 0) return beside;
  const int guard = sole_maker(rewriter, weights, is_choice);
  if (guard < 0) return {};
  const Node& node = rewriter.node(size_t(guard));
  const ValueId condition = rewriter.input(node, 0), y = rewriter.input(node, 2);
  if (!is_zero_throughout(rewriter, rewriter.input(node, 1)) || !made_by(rewriter, y, is_softmax)) return {};
  const int softmax = rewriter.maker(y);
  const ValueId scores = rewriter.input(rewriter.node(size_t(softmax)), 0);
  if (rewriter.uses(y) == 1 && rewriter.uses(scores) == 2 && tells_empty_rows(rewriter, condition, scores))
    return {softmax, scores, true, kNoValue};
  const int test = sole_maker(rewriter, condition, "isnan");
  if (test < 0 || rewriter.uses(y) != 2 || rewriter.input(rewriter.node(size_t(test)), 0) != y) return {};
  return {softmax, scores, false, kNoValue};
}

}  // namespace pl::passes
