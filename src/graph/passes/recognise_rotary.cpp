// recognise_rotary: rotary position embedding spelled in slices, products and concats becomes one op.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// Columns `start` to `start + count` of `source`: a slice along the last dimension, or a part of a split.
struct Columns {
  ValueId source = kNoValue;
  int64_t start = 0, count = 0;
};

std::optional<Columns> columns_taken(Rewriter& rewriter, ValueId id) {
  const int index = rewriter.maker(id);
  if (index < 0) return std::nullopt;
  const Node& node = rewriter.node(size_t(index));
  const ValueId source = rewriter.input(node, 0);
  const int last = rewriter.shape(id).size() - 1;
  Columns columns{source, 0, last < 0 ? 0 : rewriter.shape(id)[last]};
  if (is_slice(node)) {
    const Op op = rewriter.op(size_t(index));
    for (int d = 0; d < last; ++d)
      if (op.in(0).shape[d] != op.out().shape[d] || op.attributes[attr::steps][size_t(d)] != 1) return std::nullopt;
    if (op.attributes[attr::steps][size_t(last)] != 1) return std::nullopt;
    columns.start = op.attributes[attr::starts][size_t(last)];
    return columns;
  }
  if (!is_split(node) || rewriter.op(size_t(index)).attributes[attr::dim] != last) return std::nullopt;
  for (ValueId part : node.outputs) {
    if (part == id) return columns;
    columns.start += rewriter.shape(part)[last];
  }
  return std::nullopt;
}

// A concat of two along the last dimension, used once.
bool joins_two(Rewriter& rewriter, int index) {
  if (index < 0) return false;
  const Node& node = rewriter.node(size_t(index));
  return node.inputs.size() == 2 &&
         rewriter.op(size_t(index)).attributes[attr::dim] == rewriter.shape(node.outputs[0]).size() - 1;
}

// x if the value is x with its halves swapped and the one that comes first then negated.
ValueId turned(Rewriter& rewriter, ValueId id) {
  const int concat = sole_maker(rewriter, id, is_concat);
  if (!joins_two(rewriter, concat)) return kNoValue;
  const Node& node = rewriter.node(size_t(concat));
  const int negated = sole_maker(rewriter, rewriter.input(node, 0), "neg");
  if (negated < 0) return kNoValue;
  const auto high = columns_taken(rewriter, rewriter.input(rewriter.node(size_t(negated)), 0));
  const auto low = columns_taken(rewriter, rewriter.input(node, 1));
  if (!high || !low || high->source != low->source || high->count != low->count) return kNoValue;
  const Dims& shape = rewriter.shape(id);
  const bool halves = low->start == 0 && high->start == low->count && shape == rewriter.shape(low->source);
  return halves ? low->source : kNoValue;
}

// The other factor if the value is x times something that may be a table of cosines or sines for it.
ValueId table_of(Rewriter& rewriter, ValueId id, ValueId x) {
  const int product = sole_maker(rewriter, id, Operation::product);
  if (product < 0) return kNoValue;
  const Node& node = rewriter.node(size_t(product));
  for (size_t k = 0; k < 2; ++k) {
    const ValueId table = rewriter.input(node, 1 - k);
    if (rewriter.input(node, k) != x) continue;
    const Dims &shape = rewriter.shape(table), &own = rewriter.shape(x);
    if (shape.size() > 0 && shape[shape.size() - 1] == own[own.size() - 1] && rewriter.shape(id) == own) return table;
  }
  return kNoValue;
}

// x * cos + turned(x) * sin.
void recognise_rotary_at(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (rewriter.shape(node.outputs[0]).size() < 2) return;
  for (size_t k = 0; k < 2; ++k) {
    const ValueId second = rewriter.input(node, 1 - k);
    const int product = sole_maker(rewriter, second, Operation::product);
    if (product < 0) continue;
    for (size_t j = 0; j < 2; ++j) {
      const ValueId swapped = rewriter.input(rewriter.node(size_t(product)), j);
      const ValueId x = swapped == kNoValue ? kNoValue : turned(rewriter, swapped);
      if (x == kNoValue) continue;
      const ValueId sines = table_of(rewriter, second, swapped);
      const ValueId cosines = table_of(rewriter, rewriter.input(node, k), x);
      if (sines == kNoValue || cosines == kNoValue) continue;
      return rewriter.rewrite(index, "rotary_embedding", Attributes(), {x, cosines, sines});
    }
  }
}

// The first columns turned, joined to the others: all columns, of which the first are turned.
void take_rest(Rewriter& rewriter, size_t index) {
  if (!joins_two(rewriter, int(index))) return;
  const Node& node = rewriter.node(index);
  const int rotary = sole_maker(rewriter, rewriter.input(node, 0), is_rotary_embedding);
  const auto rest = columns_taken(rewriter, rewriter.input(node, 1));
  if (rotary < 0 || !rest || rewriter.shape(rest->source) != rewriter.shape(node.outputs[0])) return;
  const std::vector<ValueId> parts = rewriter.inputs(rewriter.node(size_t(rotary)));
  const auto first = columns_taken(rewriter, parts[0]);
  if (!first || first->source != rest->source || first->start != 0 || rest->start != first->count) return;
  const Dims& table = rewriter.shape(parts[1]);
  if (table[table.size() - 1] != first->count) return;
  rewriter.rewrite(index, "rotary_embedding", Attributes(), {first->source, parts[1], parts[2]});
}

int run_recognise_rotary(Graph& graph, Context&) {
  return sweep(graph, [](Rewriter& rewriter, size_t index) {
    if (is_bare(rewriter, index, Operation::sum))
      recognise_rotary_at(rewriter, index);
    else if (is_concat(rewriter.node(index)))
      take_rest(rewriter, index);
  });
}

}  // namespace

Pass recognise_rotary() {
  return {
      "recognise_rotary",
      "Recognises x * cos + concat(-x2, x1) * sin, of all columns or the first ones, as rotary_embedding.  A result "
      "changes by roundings of its dtype.",
      run_recognise_rotary};
}

}  // namespace pl::passes
