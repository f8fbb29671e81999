// scatter_rows: an index that is repeated along other dimensions than the scattered one is given as it is.
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

void shorten(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (!is_scatter(node)) return;
  const ValueId repeated = rewriter.input(node, 1);
  const Node* repeats = made_by(rewriter, repeated, is_repeat);
  if (!repeats) return;
  const ValueId own = rewriter.input(*repeats, 0);
  const Dims &from = rewriter.shape(own), &to = rewriter.shape(repeated);
  const auto dim = int(rewriter.op(index).attributes[attr::dim]);
  if (from.size() != to.size() || from[dim] != to[dim]) return;
  const Attributes attributes = node.attributes;
  rewriter.rewrite(index, "scatter", attributes, {rewriter.input(node, 0), own, rewriter.input(node, 2)});
}

int run_scatter_rows(Graph& graph, Context&) { return sweep(graph, shorten); }

}  // namespace

Pass scatter_rows() {
  return {"scatter_rows",
          "Makes scatter with an index that an expand repeats along other dimensions one that puts whole rows.  Exact.",
          run_scatter_rows};
}

}  // namespace pl::passes
