// merge_views: reshapes and permutations one behind the other become the fewest that do the same.
#include "graph/passes/combined_views.h"
#include "graph/passes/passes.h"

namespace pl::passes {
namespace {

// Merged ones are three views at most, so what stands before a view in a sweep is no longer.
constexpr int kMostMergedViews = 4;

void merge_views_at(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (!is_reshape(node) && !is_permute(node)) return;
  const int before = rewriter.maker(rewriter.input(node, 0));
  if (before < 0) return;
  if (is_reshape(node) && is_reshape(rewriter.node(size_t(before)))) {  // whatever the sizes
    const ValueId x = rewriter.input(rewriter.node(size_t(before)), 0);
    std::vector<CombinedViews::Step> steps;
    if (rewriter.shape(x) != rewriter.shape(node.outputs[0]))
      steps.push_back({false, rewriter.shape(node.outputs[0]).vector()});
    return rewrite_as_steps(rewriter, index, x, steps);
  }
  for (int most = kMostMergedViews; most >= 2; --most) {
    ValueId source;
    int length;
    const auto combined = CombinedViews::back_from(rewriter, node.outputs[0], most, source, length);
    if (length < most) {
      most = length + 1;  // they have ended
      if (length < 2) return;
    }
    const auto steps = combined ? combined->steps() : std::nullopt;
    if (steps && int(steps->size()) < length) return rewrite_as_steps(rewriter, index, source, *steps);
  }
}

int run_merge_views(Graph& graph, Context&) { return sweep(graph, merge_views_at); }

}  // namespace

Pass merge_views() {
  return {"merge_views",
          "Merges reshape, flatten, squeeze, unsqueeze, permute and transpose one behind the other into at most "
          "reshape, permute, reshape.  Exact.",
          run_merge_views};
}

}  // namespace pl::passes
