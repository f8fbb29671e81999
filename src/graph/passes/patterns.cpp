#include "graph/passes/patterns.h"

#include "ops/normalization.h"

namespace pl::passes {

const Algebra& algebra_of(const Node& node) { return pl::algebra_of(*node.schema, node.attributes); }

bool applies_function(const Node& node) { return node.schema->applies_function; }
bool is_concat(const Node& node) { return node.schema->joins; }
bool is_slice(const Node& node) { return node.schema->renaming == Renaming::part; }
bool is_split(const Node& node) { return node.schema->renaming == Renaming::split; }
bool is_repeat(const Node& node) { return node.schema->renaming == Renaming::repeat; }
bool is_reshape(const Node& node) { return node.schema->renaming == Renaming::shape; }
bool is_permute(const Node& node) { return node.schema->renaming == Renaming::order; }
bool is_matrix_product(const Node& node) { return node.schema->weighting.order == Weighting::Order::matrices; }
bool normalises_rows(const Node& node) {
  return node.schema->by_rows && takes_attribute(*node.schema, attr::normalized_shape);
}
bool is_linear(const Node& node) { return node.schema->weighting && node.schema->by_rows; }

bool computes(const Rewriter& rewriter, size_t index, std::string_view function) {
  return applies_function(rewriter.node(index)) && function_of(rewriter.op(index)).name == function;
}

bool is_bare(const Rewriter& rewriter, size_t index, Operation operation) {
  return operation_of(rewriter.node(index)) == operation && !rewriter.has_post_ops(index);
}

namespace {

bool matches(const Rewriter& rewriter, int index, Operation operation) {
  return index >= 0 && is_bare(rewriter, size_t(index), operation);
}
bool matches(const Rewriter& rewriter, int index, std::string_view function) {
  return index >= 0 && computes(rewriter, size_t(index), function);
}
bool matches(const Rewriter& rewriter, int index, Is is) { return index >= 0 && is(rewriter.node(size_t(index))); }

template <class What>
const Node* maker_of(const Rewriter& rewriter, ValueId id, What what) {
  const int index = rewriter.maker(id);
  return matches(rewriter, index, what) ? &rewriter.node(size_t(index)) : nullptr;
}

template <class What>
int maker_of_one_use(const Rewriter& rewriter, ValueId id, What what) {
  const int index = rewriter.sole_maker(id);
  return matches(rewriter, index, what) ? index : -1;
}

}  // namespace

const Node* made_by(const Rewriter& rewriter, ValueId id, Operation operation) {
  return maker_of(rewriter, id, operation);
}
const Node* made_by(const Rewriter& rewriter, ValueId id, std::string_view function) {
  return maker_of(rewriter, id, function);
}
const Node* made_by(const Rewriter& rewriter, ValueId id, Is is) { return maker_of(rewriter, id, is); }

ValueId without_repeats(Rewriter& rewriter, ValueId id) {
  while (const Node* repeats = made_by(rewriter, id, is_repeat)) id = rewriter.input(*repeats, 0);
  return id;
}

int sole_maker(const Rewriter& rewriter, ValueId id, Operation operation) {
  return maker_of_one_use(rewriter, id, operation);
}
int sole_maker(const Rewriter& rewriter, ValueId id, std::string_view function) {
  return maker_of_one_use(rewriter, id, function);
}
int sole_maker(const Rewriter& rewriter, ValueId id, Is is) { return maker_of_one_use(rewriter, id, is); }

Functions functions_before(Rewriter& rewriter, ValueId id) {
  Functions found;
  found.made = rewriter.sole_maker(id);
  for (; found.made >= 0 && applies_function(rewriter.node(size_t(found.made))) &&
         !rewriter.has_post_ops(size_t(found.made));
       found.made = rewriter.sole_maker(id)) {
    found.list.insert(found.list.begin(), function_of(rewriter.op(size_t(found.made))));
    id = rewriter.input(rewriter.node(size_t(found.made)), 0);
  }
  return found;
}

std::optional<std::pair<double, double>> range_of(const PostOp& function) {
  const auto limits = Limits::of(function);
  return limits ? std::optional(std::make_pair(limits->low, limits->high)) : std::nullopt;
}

std::optional<Border> border_of(Rewriter& rewriter, ValueId id) {
  const int index = sole_maker(rewriter, id, is_pad);
  if (index < 0) return std::nullopt;
  const Op op = rewriter.op(size_t(index));
  if (op.attributes[attr::mode] != "constant") return std::nullopt;
  return Border{rewriter.input(rewriter.node(size_t(index)), 0), op.attributes[attr::begins], op.attributes[attr::ends],
                op.attributes[attr::value]};
}

}  // namespace pl::passes
