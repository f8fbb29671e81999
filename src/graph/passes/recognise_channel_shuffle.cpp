// recognise_channel_shuffle: the reshape, transpose and reshape that shuffle channels become one op, which has an
// implementation in every layout, where the last reshape would bring the tensor to the plain one.
#include "graph/passes/combined_views.h"
#include "graph/passes/passes.h"

namespace pl::passes {
namespace {

void recognise_channel_shuffle_at(Rewriter& rewriter, size_t index) {
  const Node& last = rewriter.node(index);
  if (!is_reshape(last)) return;
  const int middle = rewriter.maker(rewriter.input(last, 0));
  if (middle < 0) return;
  if (!is_permute(rewriter.node(size_t(middle)))) return;
  const int first = rewriter.maker(rewriter.input(rewriter.node(size_t(middle)), 0));
  if (first < 0 || !is_reshape(rewriter.node(size_t(first)))) return;
  const ValueId x = rewriter.input(rewriter.node(size_t(first)), 0);
  const Dims& shape = rewriter.shape(x);
  const Dims& split = rewriter.shape(rewriter.node(size_t(first)).outputs[0]);
  if (rewriter.shape(last.outputs[0]) != shape || shape.size() < 2 || split.size() < 3) return;
  if (split[0] != shape[0] || split[1] * split[2] != shape[1]) return;
  const std::vector<int64_t> dims = rewriter.op(size_t(middle)).attributes[attr::dims];
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != (i == 1 ? 2 : i == 2 ? 1 : int64_t(i))) return;
  Attributes attributes;
  attributes.set(attr::groups, split[1]);
  rewriter.rewrite(index, "channel_shuffle", attributes, {x});
}

int run_recognise_channel_shuffle(Graph& graph, Context&) { return sweep(graph, recognise_channel_shuffle_at); }

}  // namespace

Pass recognise_channel_shuffle() {
  return {"recognise_channel_shuffle",
          "Recognises reshape to (n, groups, c / groups, ...), transpose of dimensions 1 and 2 and reshape back as "
          "channel_shuffle.  Exact.",
          run_recognise_channel_shuffle};
}

}  // namespace pl::passes
