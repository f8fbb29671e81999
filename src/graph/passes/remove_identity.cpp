// remove_identity: ops that change nothing.
#include <algorithm>
#include <cmath>

#include "graph/passes/combined_views.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "ops/activation.h"

namespace pl::passes {
namespace {

bool all_of(const std::vector<int64_t>& values, int64_t expected) {
  return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == expected; });
}

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
// operand that the result equals, or kNoValue.
ValueId unchanged_operand(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const std::string& name = node.schema->name;
  if (rewriter.has_activation(index)) return kNoValue;
  const TensorDesc& result = rewriter.desc(node.outputs[0]);
  for (size_t k : {size_t(1), size_t(0)}) {
    const auto number = rewriter.number(rewriter.input(node, k));
    const ValueId x = rewriter.input(node, 1 - k);
    if (!number || rewriter.shape(x) != result.shape) continue;
    const bool zero = *number == 0, integer = !is_floating(result.dtype), negative = std::signbit(*number);
    if (name == "mul" && *number == 1) return x;
    if (name == "add" && zero && (negative || integer)) return x;
    if (k == 0) continue;  // the others are not symmetric
    if ((name == "div" || name == "pow") && *number == 1) return x;
    if (name == "sub" && zero && (!negative || integer)) return x;
  }
  return kNoValue;
}

// What a node's result 0 equals, or kNoValue.
ValueId unchanged(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const std::string_view kind = node.schema->kind;
  if (kind == "binary") return unchanged_operand(rewriter, index);
  const ValueId x = rewriter.input(node, 0);
  if (x == kNoValue || node.outputs.size() != 1) return kNoValue;
  if (kind == "concat") return node.inputs.size() == 1 ? x : kNoValue;
  const TensorDesc &from = rewriter.desc(x), &to = rewriter.desc(node.outputs[0]);
  if (from.shape != to.shape || from.dtype != to.dtype) return kNoValue;
  if (node.schema->same_if_alike) return x;
  if (is_permute(node)) return keeps_order(from.shape, rewriter.op(index).attributes.integers("dims")) ? x : kNoValue;
  if (kind == "pad") {
    const Op op = rewriter.op(index);
    return all_of(op.attributes.integers("begins"), 0) && all_of(op.attributes.integers("ends"), 0) ? x : kNoValue;
  }
  if (kind == "pool") {  // with the same shape and a kernel of 1 there is neither stride nor padding
    const Op op = rewriter.op(index);
    return all_of(op.attributes.integers("kernel_size"), 1) && all_of(op.attributes.integers("padding"), 0) ? x
                                                                                                            : kNoValue;
  }
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

int run(Graph& graph, Context&) {
  return sweep(graph, [](Rewriter& rewriter, size_t index) {
    if (rewriter.node(index).schema->kind == "concat") drop_empty_parts(rewriter, index);
    const ValueId x = unchanged(rewriter, index);
    if (x != kNoValue) rewriter.redirect(rewriter.node(index).outputs[0], x);
  });
}

}  // namespace

Pass remove_identity() {
  return {"remove_identity",
          "Removes identities, dropout, casts to the same dtype, views that change no shape, pools of one element, x * "
          "1, x - 0, relu of relu, parts of a concat without elements.  Exact.",
          run};
}

}  // namespace pl::passes
