// move_concats: what is done to each channel of a concat of products is done to each of the products instead, which
// take it into their weights or compute it while they hold their results.  The concat itself may then cost nothing.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"

namespace pl::passes {
namespace {

constexpr int kChannels = 1;  // the dimension that batch_norm goes by

bool has_constant_statistics(Rewriter& rewriter, const Node& norm) {
  const std::vector<ValueId> inputs = rewriter.inputs(norm);
  return std::all_of(inputs.begin() + 1, inputs.end(),
                     [&](ValueId id) { return id == kNoValue || rewriter.is_constant(id); });
}

// Whether a part is what a product makes that would take the node; nothing else reads it.
bool takes(Rewriter& rewriter, ValueId part, size_t index) {
  const int made = rewriter.sole_maker(part);
  if (made < 0) return false;
  const auto product = product_of(rewriter, size_t(made));
  if (!product) return false;
  if (is_batch_norm(rewriter.node(index)))
    return product->output_axis == kChannels && takes_output_affine(rewriter, *product, true);
  return takes_post_op(*rewriter.node(size_t(made)).schema, function_of(rewriter.op(index)));
}

void move_in_front_of_concat(Rewriter& rewriter, size_t index) {
  const bool norm = is_batch_norm(rewriter.node(index));
  if (!norm && !applies_function(rewriter.node(index))) return;
  if (rewriter.has_post_ops(index) || (norm && !has_constant_statistics(rewriter, rewriter.node(index)))) return;
  const int concat = sole_maker(rewriter, rewriter.input(rewriter.node(index), 0), is_concat);
  if (concat < 0 || rewriter.has_post_ops(size_t(concat))) return;
  const std::vector<ValueId> parts = rewriter.inputs(rewriter.node(size_t(concat)));
  const Attributes joining = rewriter.op(size_t(concat)).attributes;
  if (const int64_t dim = joining[attr::dim];
      norm && dim != kChannels && dim + rewriter.shape(parts[0]).size() != kChannels)
    return;
  if (!std::all_of(parts.begin(), parts.end(), [&](ValueId part) { return takes(rewriter, part, index); })) return;

  const std::string schema = rewriter.node(index).schema->name, name = rewriter.node(index).name;
  const std::string join = rewriter.node(size_t(concat)).schema->name;
  const Attributes attributes = rewriter.node(index).attributes;
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(index));
  std::vector<ValueId> made;
  int64_t begin = 0;
  for (ValueId part : parts) {
    std::vector<ValueId> own = inputs;
    own[0] = part;
    const int64_t end = norm ? begin + rewriter.shape(part)[kChannels] : 0;
    for (size_t k = 1; k < own.size(); ++k) {  // the part's channels, which fold_constants cuts out
      if (own[k] == kNoValue) continue;
      own[k] = rewriter.insert(index, "slice",
                               Attributes{{attr::starts, std::vector<int64_t>{begin}},
                                          {attr::ends, std::vector<int64_t>{end}},
                                          {attr::axes, std::vector<int64_t>{0}}},
                               {own[k]}, name);
    }
    made.push_back(rewriter.insert(index, schema, attributes, own, name));
    begin = end;
  }
  rewriter.rewrite(index, join, joining, made);
}

int run_move_concats(Graph& graph, Context&) { return sweep(graph, move_in_front_of_concat); }

}  // namespace

Pass move_concats() {
  return {"move_concats",
          "batch_norm with constant statistics, or a function, behind a concat whose parts are all results of products "
          "that take it, as in MixNet, is done to each part in front of it; results are equal to the bit.",
          run_move_concats};
}

}  // namespace pl::passes
