// skip_repeats: what an expand repeats is read once by ops that broadcast: a matrix that PyTorch's matmul repeats for a
// stack of rows, which it could not see as one matrix, is one matrix again.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// The size of the dimension that is `back` before the last one; 1 before the first.
int64_t size_at(const Dims& shape, int back) { return back < shape.size() ? shape[shape.size() - 1 - back] : 1; }

// Whether the op's result stays what it is if input i has the shape `from`.
bool broadcasts(const Op& op, size_t i, const Dims& from) {
  const Dims &to = op.in(int(i)).shape, &result = op.out().shape;
  const int fixed = is_elementwise(op) ? 0 : 2;  // of a product: the matrices themselves
  if (from.size() < fixed) return false;
  int rank = from.size();
  std::vector<const Dims*> others;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    if (k == i || !op.has(int(k))) continue;
    others.push_back(&op.in(int(k)).shape);
    rank = std::max(rank, others.back()->size());
  }
  for (int back = 0; back < to.size(); ++back) {
    const int64_t size = size_at(to, back);
    if (size_at(from, back) == size) continue;
    const auto has_it = [&](const Dims* other) { return size_at(*other, back) == size; };
    if (back < fixed || std::none_of(others.begin(), others.end(), has_it)) return false;
  }
  return rank == result.size();
}

void skip_repeats_at(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (node.inputs.size() < 2 || node.outputs.size() != 1 || rewriter.has_post_ops(index)) return;
  Op op = rewriter.op(index);
  if (!is_elementwise(op) && !is_matrix_product(node)) return;
  std::vector<ValueId> inputs = rewriter.inputs(node);
  bool found = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node* repeats = inputs[i] == kNoValue ? nullptr : made_by(rewriter, inputs[i], is_repeat);
    if (!repeats) continue;
    const ValueId source = rewriter.input(*repeats, 0);
    if (!broadcasts(op, i, rewriter.shape(source))) continue;
    inputs[i] = source;
    op.inputs[i] = rewriter.desc(source);
    found = true;
  }
  if (!found) return;
  const Attributes attributes = node.attributes;
  rewriter.rewrite(index, node.schema->name, attributes, inputs);
}

int run_skip_repeats(Graph& graph, Context&) { return sweep(graph, skip_repeats_at); }

}  // namespace

Pass skip_repeats() {
  return {
      "skip_repeats",
      "Lets arithmetic and products of matrices, which broadcast, read what an expand would repeat for them.  Exact.",
      run_skip_repeats};
}

}  // namespace pl::passes
