// split_linear: a linear op whose result is only used in slices of its channels becomes one op for each slice, whose
// results are dense tensors of their own.  The slices may be of a view of the result, and their channels lie apart:
// queries, keys and values of one head after another.
#include <cstring>

#include "dispatch/context.h"
#include "graph/passes/combined_views.h"
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"
#include "ops/view.h"

namespace pl::passes {
namespace {

struct Range {
  int64_t start = 0, count = 0;
};

// The channels that a node takes, if it is a slice of nothing else.
std::optional<Range> channels_of(Rewriter& rewriter, size_t index) {
  if (!is_slice(rewriter.node(index))) return std::nullopt;
  const Op op = rewriter.op(index);
  const Dims &from = op.in(0).shape, &to = op.out().shape;
  const int last = from.size() - 1;
  for (int d = 0; d < last; ++d)
    if (from[d] != to[d]) return std::nullopt;
  if (to[last] == 0 || op.attributes[attr::steps][size_t(last)] != 1) return std::nullopt;
  return Range{op.attributes[attr::starts][size_t(last)], to[last]};
}

// A part of a constant's first dimension, as a view.
ValueId rows_of(Rewriter& rewriter, ValueId id, const Range& range) {
  const Tensor& whole = rewriter.constant(id);
  const Dims& shape = whole.desc().shape;
  Dims starts = Dims::filled(shape.size(), 0), counts = shape;
  starts[0] = range.start;
  counts[0] = range.count;
  const auto view = view_sliced(whole.desc(), starts, counts, Dims::filled(shape.size(), 1));
  if (!view) return kNoValue;
  return rewriter.add_constant(rewriter.graph().value(id).name, std::make_shared<Tensor>(*view, whole.buffer()));
}

void split(Rewriter& rewriter, size_t index, const std::vector<int32_t>& users) {
  const Node& node = rewriter.node(index);
  const ValueId y = node.outputs[0], weight = rewriter.input(node, kWeight), bias = rewriter.input(node, kBias);
  if (reads_inputs(rewriter.post_ops(index)) || !rewriter.is_constant(weight)) return;
  if (bias != kNoValue && !rewriter.is_constant(bias)) return;
  if (users.size() < 2 || size_t(rewriter.uses(y)) != users.size()) return;
  int64_t total = 0;
  std::vector<Range> ranges;
  for (int32_t user : users) {
    const auto range = channels_of(rewriter, size_t(user));
    if (!range) return;
    total += range->count;
    ranges.push_back(*range);
  }
  if (total > rewriter.shape(weight)[0]) return;  // some would be computed twice
  const std::vector<ValueId> inputs = rewriter.inputs(node);
  const Attributes attributes = node.attributes;
  for (size_t i = 0; i < users.size(); ++i) {
    std::vector<ValueId> own = inputs;
    own[kWeight] = rows_of(rewriter, weight, ranges[i]);
    if (bias != kNoValue) own[kBias] = rows_of(rewriter, bias, ranges[i]);
    if (own[kWeight] == kNoValue || (bias != kNoValue && own[kBias] == kNoValue)) return;
    rewriter.rewrite(size_t(users[i]), "linear", attributes, own);
  }
}

// The rows of a constant whose number r has first <= r / inner % size < first + count.
ValueId rows_apart(Rewriter& rewriter, Context& context, ValueId id, int64_t size, int64_t inner, const Range& range) {
  const TensorRef whole = plain_on_cpu(context, rewriter.graph().value(id).constant);
  Dims shape = whole->desc().shape;
  const int64_t groups = shape[0] / (size * inner);
  const size_t row = whole->desc().size_bytes() / size_t(shape[0]);
  shape[0] = groups * range.count * inner;
  const TensorRef part = Tensor::allocate(context.host(), TensorDesc::dense(whole->desc().dtype, shape));
  const char* from = static_cast<const char*>(whole->buffer()->host());
  char* to = static_cast<char*>(part->buffer()->host());
  const size_t run = size_t(range.count * inner) * row;
  for (int64_t g = 0; g < groups; ++g)
    std::memcpy(to + size_t(g) * run, from + size_t((g * size + range.start) * inner) * row, run);
  return rewriter.add_constant(rewriter.graph().value(id).name, part);
}

// slice(view(linear)) along a part of the channels that lies within another: view'(linear') with those channels alone,
// for all the slices that use the view.
void split_viewed(Rewriter& rewriter, Context& context, size_t index, const std::vector<int32_t>& users) {
  const ValueId viewed = rewriter.input(rewriter.node(index), 0);
  constexpr int kMostViews = 3;
  ValueId y;
  int length;
  const auto combined = CombinedViews::back_from(rewriter, viewed, kMostViews, y, length);
  const int made = combined && length > 0 ? sole_maker(rewriter, y, is_linear) : -1;
  if (made < 0) return;
  if (users.size() < 2 || size_t(rewriter.uses(viewed)) != users.size()) return;
  const Node& linear = rewriter.node(size_t(made));
  const ValueId weight = rewriter.input(linear, kWeight), bias = rewriter.input(linear, kBias);
  if (reads_inputs(rewriter.post_ops(size_t(made))) || !rewriter.is_constant(weight)) return;
  if (bias != kNoValue && !rewriter.is_constant(bias)) return;
  int axis = -1;
  int64_t total = 0;
  std::vector<Range> ranges;
  for (int32_t user : users) {
    if (!rewriter.live(size_t(user)) || !is_slice(rewriter.node(size_t(user)))) return;
    const Op op = rewriter.op(size_t(user));
    const Dims &from = op.in(0).shape, &to = op.out().shape;
    for (int d = 0; d < from.size(); ++d) {
      if (from[d] == to[d]) continue;
      if ((axis >= 0 && axis != d) || op.attributes[attr::steps][size_t(d)] != 1 || to[d] == 0) return;
      axis = d;
    }
    if (axis < 0 || from[axis] == to[axis]) return;
    ranges.push_back({op.attributes[attr::starts][size_t(axis)], to[axis]});
    total += to[axis];
  }
  if (combined->dims()[size_t(axis)].size() != 1) return;
  const int f = combined->dims()[size_t(axis)][0];
  const auto& factor = combined->factors()[size_t(f)];
  if (factor.dim != rewriter.shape(y).size() - 1 || combined->is_outermost(f) || total > factor.size) return;
  const int64_t size = factor.size, inner = combined->span(f);
  const std::vector<ValueId> inputs = rewriter.inputs(linear);
  const Attributes attributes = linear.attributes;
  for (size_t i = 0; i < users.size(); ++i) {
    const auto steps = combined->with_size(f, ranges[i].count).steps();
    if (!steps) return;
    std::vector<ValueId> own = inputs;
    own[kWeight] = rows_apart(rewriter, context, weight, size, inner, ranges[i]);
    if (bias != kNoValue) own[kBias] = rows_apart(rewriter, context, bias, size, inner, ranges[i]);
    const std::string title = rewriter.node(size_t(users[i])).name;
    const ValueId part = rewriter.insert(size_t(users[i]), "linear", attributes, own, title);
    rewrite_as_steps(rewriter, size_t(users[i]), part, *steps);
  }
}

int run_split_linear(Graph& graph, Context& context) {
  const std::vector<std::vector<int32_t>> consumers = graph.consumers();
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    const Node& node = rewriter.node(index);
    if (is_linear(node)) split(rewriter, index, consumers[size_t(node.outputs[0])]);
    if (is_slice(node)) {
      const ValueId viewed = rewriter.input(node, 0);
      if (size_t(viewed) < consumers.size()) split_viewed(rewriter, context, index, consumers[size_t(viewed)]);
    }
  });
}

}  // namespace

Pass split_linear() {
  return {"split_linear",
          "Splits a linear op whose result, or a view of it, is used in disjoint slices of its channels only, as "
          "attention's queries, keys and values are, into one for each slice.  Exact.",
          run_split_linear};
}

}  // namespace pl::passes
