// split_linear: a linear op whose result is only used in slices of its channels becomes one op for each slice, whose
// results are dense tensors of their own.
#include "graph/passes/passes.h"
#include "graph/passes/products.h"
#include "ops/view.h"

namespace pl::passes {
namespace {

struct Range {
  int64_t start = 0, count = 0;
};

// The channels that a node takes, if it is a slice of nothing else.
std::optional<Range> channels_of(Rewriter& rewriter, size_t index) {
  if (rewriter.node(index).schema->kind != "slice") return std::nullopt;
  const Op op = rewriter.op(index);
  const Dims &from = op.in(0).shape, &to = op.out().shape;
  const int last = from.size() - 1;
  for (int d = 0; d < last; ++d)
    if (from[d] != to[d]) return std::nullopt;
  if (to[last] == 0 || op.attributes.integers("steps")[size_t(last)] != 1) return std::nullopt;
  return Range{op.attributes.integers("starts")[size_t(last)], to[last]};
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
  if (rewriter.input(node, kResidual) != kNoValue || !rewriter.is_constant(weight)) return;
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

int run(Graph& graph, Context&) {
  const std::vector<std::vector<int32_t>> consumers = graph.consumers();
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    const Node& node = rewriter.node(index);
    if (node.schema->kind == "linear") split(rewriter, index, consumers[size_t(node.outputs[0])]);
  });
}

}  // namespace

Pass split_linear() {
  return {"split_linear",
          "Splits a linear op whose result is used in disjoint slices of its channels only, as attention's queries, "
          "keys and values are, into one for each slice.  Exact.",
          run};
}

}  // namespace pl::passes
