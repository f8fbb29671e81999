// fold_pad: a border of constants before a convolution or pool becomes its padding.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// Whether a border of this value does to a maximum what padding does: nothing.
bool is_lowest(double value, DType dtype) {
  return value == -std::numeric_limits<double>::infinity() ||
         (dtype == DType::f32 && value == double(std::numeric_limits<float>::lowest()));
}

void fold_pad_at(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const Schema& schema = *node.schema;
  if (schema.padding == Padding::none) return;
  const auto border = border_of(rewriter, rewriter.input(node, 0));
  if (!border) return;
  const Op op = rewriter.op(index);
  const bool maximum = schema.padding == Padding::lowest;
  if (maximum ? !is_lowest(border->value, op.in(0).dtype) : border->value != 0) return;

  const std::vector<int64_t>&begins = border->begins, &ends = border->ends;
  std::vector<int64_t> padding = op.attributes[attr::padding];
  const size_t spatial = padding.size() / 2;
  bool own = false, positive = true;
  for (int64_t size : padding) own = own || size != 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    if (i < 2 && (begins[i] != 0 || ends[i] != 0)) return;
    positive = positive && begins[i] >= 0 && ends[i] >= 0;
  }
  if (!positive) return;
  for (size_t i = 0; i < spatial; ++i) {
    padding[i] += begins[i + 2];
    padding[i + spatial] += ends[i + 2];
  }
  Attributes attributes = node.attributes;
  attributes.set(attr::padding, padding);
  if (!schema.weighting) {  // pools
    // With ceil_mode the last window may begin in the border, but not in padding.
    if (op.attributes[attr::ceil_mode]) return;
    const std::vector<int64_t>&kernel = op.attributes[attr::kernel_size], &dilation = op.attributes[attr::dilation];
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
      if (padding[i] > reach / 2 || padding[i + spatial] > reach / 2) return;
    }
    if (!maximum) {
      // The border was counted; so must the padding be, which was not if it was the pool's own.
      if (own && !op.attributes[attr::count_include_pad]) return;
      attributes.set(attr::count_include_pad, true);
    }
  }
  std::vector<ValueId> inputs = rewriter.inputs(node);
  inputs[0] = border->x;
  rewriter.rewrite(index, schema.name, attributes, inputs);
}

int run_fold_pad(Graph& graph, Context&) { return sweep(graph, fold_pad_at); }

}  // namespace

Pass fold_pad() {
  return {"fold_pad",
          "Makes a border of zeros the padding of the convolution or average pool after it, and one of -infinity that "
          "of a maximum pool.  Exact.",
          run_fold_pad};
}

}  // namespace pl::passes
