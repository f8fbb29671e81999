// remove_identity: ops that change nothing.
#include <cmath>

#include "graph/passes/combined_views.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "ops/activation.h"

namespace pl::passes {
namespace {

// Whether the dimensions of more than one element keep their order.
bool keeps_order(const Dims& shape, const std::vector<int64_t>& dims) {
  int64_t last = -1;
  for (int64_t dim : dims) {
    if (shape[int(dim)] == 1) continue;
    if (dim < last) return false;
    last = dim;
  }
  return true;
}

// x * 1, 1 * x, x / 1, x - 0 and x + -0 are x to the bit; x + 0 is not for x = -0, but in integers it is.  Returns the
// operand that the result equals where the other one is neutral, or kNoValue.
ValueId unchanged_operand(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const Algebra& algebra = algebra_of(node);
  if (!algebra.neutral || rewriter.has_post_ops(index)) return kNoValue;
  const TensorDesc& result = rewriter.desc(node.outputs[0]);
  for (size_t k : {size_t(1), size_t(0)}) {
    if (k == 0 && !algebra.commutes) continue;
    const auto number = rewriter.number(rewriter.input(node, k));
    const ValueId x = rewriter.input(node, 1 - k);
    if (!number || rewriter.shape(x) != result.shape) continue;
    const bool same_sign = std::signbit(*number) == std::signbit(*algebra.neutral);
    if (*number == *algebra.neutral && (same_sign || !is_floating(result.dtype))) return x;
  }
  return kNoValue;
}

// What a node's result 0 equals, or kNoValue.
ValueId unchanged(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (algebra_of(node).neutral) return unchanged_operand(rewriter, index);
  const ValueId x = rewriter.input(node, 0);
  if (x == kNoValue || node.outputs.size() != 1) return kNoValue;
  if (is_concat(node)) return node.inputs.size() == 1 ? x : kNoValue;
  const TensorDesc &from = rewriter.desc(x), &to = rewriter.desc(node.outputs[0]);
  if (from.shape != to.shape || from.dtype != to.dtype) return kNoValue;
  if (node.schema->same_if_alike)
    return node.schema->same_only_if.empty() || is_same_if_alike(rewriter.op(index)) ? x : kNoValue;
  if (is_permute(node)) return keeps_order(from.shape, rewriter.op(index).attributes[attr::dims]) ? x : kNoValue;
  if (node.schema->idempotent) {
    const int before = rewriter.maker(x);
    if (before >= 0 && rewriter.node(size_t(before)).schema == node.schema) return x;
  }
  return kNoValue;
}

// Parts of a concat that hold nothing.
void drop_empty_parts(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  std::vector<ValueId> parts;
  for (ValueId part : rewriter.inputs(node))
    if (rewriter.desc(part).elements() > 0) parts.push_back(part);
  if (parts.empty() || parts.size() == node.inputs.size()) return;
  const std::string schema = node.schema->name;
  const Attributes attributes = node.attributes;
  rewriter.rewrite(index, schema, attributes, parts);
}

int run_remove_identity(Graph& graph, Context&) {
  return sweep(graph, [](Rewriter& rewriter, size_t index) {
    if (is_concat(rewriter.node(index))) drop_empty_parts(rewriter, index);
    const ValueId x = unchanged(rewriter, index);
    if (x != kNoValue) rewriter.redirect(rewriter.node(index).outputs[0], x);
  });
}

}  // namespace

Pass remove_identity() {
  return {"remove_identity",
          "Removes identities, dropout, casts to the same dtype, views that change no shape, pools of one element, x * "
          "1, x - 0, relu of relu, parts of a concat without elements.  Exact.",
          run_remove_identity};
}

}  // namespace pl::passes
