#include "graph/passes/post_op_fusion.h"

#include <algorithm>

#include "graph/passes/patterns.h"
#include "graph/passes/products.h"
#include "ops/activation.h"

namespace pl::passes {

PostOps list_of(const Rewriter& rewriter, const Fused& fused) {
  PostOps list = rewriter.post_ops(size_t(fused.before));
  list.insert(list.end(), fused.steps.begin(), fused.steps.end());
  return list;
}

bool are_fast(const PostOps& list) {
  const bool function = !list.empty() && list.back().kind == PostOp::Kind::function;
  if (function && !find_unary_function(list.back().name)->is(unary::kPostOp)) return false;
  const auto sums = size_t(
      std::count_if(list.begin(), list.end(), [](const PostOp& step) { return step.kind == PostOp::Kind::add; }));
  return sums <= 1 && sums + size_t(function) == list.size();
}

namespace {

// The node that makes a value for one reader alone, as its first result, if it takes post-ops; -1 if it does not.
int taker(const Rewriter& rewriter, ValueId y) {
  const int before = rewriter.sole_maker(y);
  if (before < 0) return -1;
  const Node& node = rewriter.node(size_t(before));
  const bool rounds = node.schema->post_ops.of_reals && !is_floating(rewriter.desc(y).dtype);
  const bool takes = takes_post_ops(*node.schema) && !rounds;
  return takes && node.outputs[0] == y ? before : -1;
}

// Makes node `before` do the steps, in place of node `index`, which takes its place: there all inputs exist.  A node of
// several results, which others read, stays where it is.
void apply_fused(Rewriter& rewriter, size_t index, const Fused& fused) {
  const Node& first = rewriter.node(size_t(fused.before));
  Attributes attributes = first.attributes;
  set_post_ops(attributes, list_of(rewriter, fused));
  const std::string schema = first.schema->name, name = first.name;
  if (first.outputs.size() == 1) return rewriter.rewrite(index, schema, attributes, fused.inputs, name);
  rewriter.rewrite(size_t(fused.before), schema, attributes, fused.inputs);
  rewriter.redirect(rewriter.node(index).outputs[0], first.outputs[0]);
}

void fuse_function(Rewriter& rewriter, size_t index, const Judge& may) {
  const Node& node = rewriter.node(index);
  const ValueId y = rewriter.input(node, 0);
  const int before = taker(rewriter, y);
  if (before < 0 || rewriter.desc(node.outputs[0]).dtype != rewriter.desc(y).dtype) return;
  const Fused fused{before, {function_of(rewriter.op(index))}, rewriter.inputs(rewriter.node(size_t(before)))};
  if (may(rewriter, index, fused)) apply_fused(rewriter, index, fused);
}

// Operand k of node `index`, a sum or a product of two tensors, by the op that makes it, if that can add the other
// operand, or multiply by it.
std::optional<Fused> fused_into(Rewriter& rewriter, size_t index, size_t k, PostOp::Kind kind) {
  const Node& node = rewriter.node(index);
  const ValueId y = rewriter.input(node, k), other = rewriter.input(node, 1 - k);
  const int made = taker(rewriter, y);
  if (made < 0 || rewriter.shape(y) != rewriter.shape(other)) return std::nullopt;
  const Node& maker = rewriter.node(size_t(made));
  if (maker.schema->post_ops.of_reals) return std::nullopt;  // what it adds has a scale of its own: fuse_addend
  if (maker.schema->weighting && !product_of(rewriter, size_t(made))) return std::nullopt;
  if (maker.outputs.size() > 1 && rewriter.maker(other) > made) return std::nullopt;
  const auto operand = free_operand(rewriter, size_t(made), kind);
  if (!operand) return std::nullopt;
  Fused fused{made, {*operand}, rewriter.inputs(maker)};
  const PostOps& own = rewriter.post_ops(index);
  fused.steps.insert(fused.steps.end(), own.begin(), own.end());
  const size_t place = size_t(operand_of(*maker.schema, *operand));
  fused.inputs.resize(std::max(fused.inputs.size(), place + 1), kNoValue);
  fused.inputs[place] = other;
  return fused;
}

void fuse_joined(Rewriter& rewriter, size_t index, PostOp::Kind kind, const Judge& may) {
  auto first = fused_into(rewriter, index, 0, kind), second = fused_into(rewriter, index, 1, kind);
  if (first && !may(rewriter, index, *first)) first.reset();
  if (second && !may(rewriter, index, *second)) second.reset();
  // The later one: the other operand then exists when it runs, wherever the order is changed.
  if (first && (!second || first->before > second->before)) return apply_fused(rewriter, index, *first);
  if (second) apply_fused(rewriter, index, *second);
}

}  // namespace

int fuse_post_ops(Graph& graph, const Judge& may) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    const Node& node = rewriter.node(index);
    if (applies_function(node)) return fuse_function(rewriter, index, may);
    if (operation_of(node) == Operation::sum) fuse_joined(rewriter, index, PostOp::Kind::add, may);
    if (operation_of(node) == Operation::product) fuse_joined(rewriter, index, PostOp::Kind::multiply, may);
  });
}

}  // namespace pl::passes
