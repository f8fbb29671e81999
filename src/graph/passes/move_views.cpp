// move_views: arithmetic moves before a view of a product's result, so that the product can take it in; views of rows
// move behind ops that work on rows, where they meet and cancel; a turned product of matrices is one of both turned, and
// matmul reads turned factors so.
#include <algorithm>

#include "graph/passes/combined_views.h"
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/products.h"

namespace pl::passes {
namespace {

// One view of a product's result, neither used by others.
struct ViewedProduct {
  size_t view = 0;
  ValueId y = kNoValue;  // the product's result
  Product product;
};

std::optional<ViewedProduct> viewed_product(Rewriter& rewriter, ValueId id) {
  const int view = rewriter.maker(id);
  if (view < 0 || rewriter.uses(id) != 1) return std::nullopt;
  const Node& node = rewriter.node(size_t(view));
  if (!is_reshape(node) && !is_permute(node)) return std::nullopt;
  const ValueId y = rewriter.input(node, 0);
  const int made = rewriter.maker(y);
  if (made < 0 || rewriter.uses(y) != 1 || !only_sums(rewriter.post_ops(size_t(made)))) return std::nullopt;
  const auto product = product_of(rewriter, size_t(made));
  if (!product) return std::nullopt;
  return ViewedProduct{size_t(view), y, *product};
}

// The axis of the view that is the product's output channels; -1 if there is none.
int channel_axis(Rewriter& rewriter, const ViewedProduct& viewed) {
  const Node& view = rewriter.node(viewed.view);
  const Dims &from = rewriter.shape(viewed.y), &to = rewriter.shape(view.outputs[0]);
  if (is_permute(view)) {
    const std::vector<int64_t> dims = rewriter.op(viewed.view).attributes[attr::dims];
    return int(std::find(dims.begin(), dims.end(), int64_t(viewed.product.output_axis)) - dims.begin());
  }
  // Of reshapes: those of rows.
  const bool rows =
      viewed.product.output_axis == from.size() - 1 && to.size() > 0 && to[to.size() - 1] == from[from.size() - 1];
  return rows ? to.size() - 1 : -1;
}

// The other operand z as it must be before the view: undone by the view.  Needs its full shape, or one axis of it.
ValueId before_view(Rewriter& rewriter, size_t root, const ViewedProduct& viewed, ValueId z) {
  const Node& view = rewriter.node(viewed.view);
  const Dims from = rewriter.shape(viewed.y), to = rewriter.shape(view.outputs[0]);
  if (rewriter.desc(z).elements() == 1) {
    Attributes attributes;
    attributes.set(attr::shape, std::vector<int64_t>{1});
    return rewriter.insert(root, "reshape", attributes, {z}, "");
  }
  if (rewriter.shape(z) == to) {
    Attributes attributes;
    if (!is_permute(view)) {
      attributes.set(attr::shape, from.vector());
      return rewriter.insert(root, "reshape", attributes, {z}, "");
    }
    const std::vector<int64_t> dims = rewriter.op(viewed.view).attributes[attr::dims];
    std::vector<int64_t> inverse(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) inverse[size_t(dims[i])] = int64_t(i);
    attributes.set(attr::dims, inverse);
    return rewriter.insert(root, "permute", attributes, {z}, "");
  }
  // Along the channels: as many ones as the product's result needs.
  Dims shape = Dims::filled(from.size(), 1);
  shape[viewed.product.output_axis] = from[viewed.product.output_axis];
  Attributes attributes;
  attributes.set(attr::shape, shape.vector());
  return rewriter.insert(root, "reshape", attributes, {z}, "");
}

// Whether fusing into the product will follow.
bool is_worth(Rewriter& rewriter, const Node& node, const ViewedProduct& viewed, ValueId z) {
  const Operation operation = operation_of(node);
  const Dims& shape = rewriter.shape(node.outputs[0]);
  const int axis = channel_axis(rewriter, viewed);
  if (axis >= 0 && rewriter.is_constant(z) && along_axis(rewriter, z, shape, axis)) {
    const bool scales = operation == Operation::product || operation == Operation::quotient;
    return takes_output_affine(rewriter, viewed.product, scales);
  }
  return operation == Operation::sum && rewriter.shape(z) == shape &&
         free_operand(rewriter, viewed.product.index, PostOp::Kind::add);
}

// binary(view(product), z) becomes view(binary(product, z')).
void before_binary(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const std::string name = node.schema->name;
  const Algebra& algebra = algebra_of(node);
  const Operation known[] = {Operation::sum, Operation::difference, Operation::product, Operation::quotient};
  if (std::find(std::begin(known), std::end(known), algebra.operation) == std::end(known)) return;
  for (size_t k = 0; k < (algebra.commutes ? 2 : 1); ++k) {
    const ValueId v = rewriter.input(node, k), z = rewriter.input(node, 1 - k);
    if (rewriter.shape(v) != rewriter.shape(node.outputs[0])) continue;
    const auto viewed = viewed_product(rewriter, v);
    if (!viewed || !is_worth(rewriter, node, *viewed, z)) continue;
    const std::string schema = rewriter.node(viewed->view).schema->name;
    const Attributes attributes = rewriter.node(viewed->view).attributes, arithmetic = node.attributes;
    const std::string title = node.name;
    const ValueId other = before_view(rewriter, index, *viewed, z);
    const ValueId sum = rewriter.insert(
        index, name, arithmetic,
        k == 0 ? std::vector<ValueId>{viewed->y, other} : std::vector<ValueId>{other, viewed->y}, title);
    return rewriter.rewrite(index, schema, attributes, {sum}, title + ".view");
  }
}

// unary(view(product)) becomes view(unary(product)).
void before_unary(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const auto viewed = viewed_product(rewriter, rewriter.input(node, 0));
  if (!viewed || rewriter.desc(node.outputs[0]).dtype != rewriter.desc(viewed->y).dtype) return;
  const std::string schema = rewriter.node(viewed->view).schema->name, name = node.schema->name, title = node.name;
  const Attributes view = rewriter.node(viewed->view).attributes, attributes = node.attributes;
  const ValueId y = rewriter.insert(index, name, attributes, {viewed->y}, title);
  rewriter.rewrite(index, schema, view, {y}, title + ".view");
}

// What becomes of a value by a reshape and a permutation, if that only undoes the views by which it is made.
std::optional<ValueId> without_view(Rewriter& rewriter, size_t before, ValueId id, const Dims& shape,
                                    const std::vector<int64_t>& dims) {
  ValueId source;
  int length;
  auto combined = CombinedViews::back_from(rewriter, id, 3, source, length);
  if (!combined || length == 0 || !combined->reshape(shape) || !combined->permute(dims)) return std::nullopt;
  const auto steps = combined->steps();
  if (!steps || std::any_of(steps->begin(), steps->end(), [](const auto& step) { return step.permutes; }))
    return std::nullopt;
  return insert_steps(rewriter, before, source, *steps);
}

// Whether views of `y`, made by a node before `index`, or of columns of it, join what does not follow one another in the
// source that `views`, which give y's dimensions, start from.
bool joins_apart(Rewriter& rewriter, size_t index, ValueId y, const CombinedViews& views) {
  for (size_t i = index; i < rewriter.size(); ++i) {
    const Node& reader = rewriter.node(i);
    if (!rewriter.live(i) || reader.inputs.empty() || rewriter.input(reader, 0) != y) continue;
    const bool parts = is_slice(reader) || is_split(reader);
    if (!parts && !is_reshape(reader) && !is_permute(reader)) continue;
    for (ValueId seen : reader.outputs) {
      CombinedViews next = views;
      if (parts) {
        const Dims &from = rewriter.shape(y), &to = rewriter.shape(seen);
        const int last = from.size() - 1;
        if (views.dims()[size_t(last)].size() != 1 || to.product() * from[last] != from.product() * to[last]) continue;
        next = views.with_size(views.dims()[size_t(last)][0], to[last]);
      } else if (is_permute(reader) ? !next.permute(rewriter.op(i).attributes[attr::dims])
                                    : !next.reshape(rewriter.shape(seen))) {
        continue;
      }
      if (next.is_copied() || joins_apart(rewriter, i + 1, seen, next)) return true;
    }
  }
  return false;
}

// linear(x) becomes view(linear(rows of x)): one copy of x, whose rows gather_rows knows, serves all products that read it.
void join_rows(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  std::vector<ValueId> inputs = rewriter.inputs(node);
  for (const PostOp& step : rewriter.post_ops(index))
    if (step.reads_input()) return;
  const Dims x = rewriter.shape(inputs[0]), y = rewriter.shape(node.outputs[0]);
  const int64_t columns = x[x.size() - 1];
  Attributes rows, whole;
  rows.set(attr::shape, std::vector<int64_t>{x.product() / columns, columns});
  whole.set(attr::shape, y.vector());
  const std::string schema = node.schema->name, title = node.name;
  const Attributes attributes = node.attributes;
  inputs[0] = rewriter.insert(index, "reshape", rows, {inputs[0]}, "");
  const ValueId made = rewriter.insert(index, schema, attributes, inputs, title);
  rewriter.rewrite(index, "reshape", whole, {made}, title + ".view");
}

// Rows in another order than those of the tensor they are views of: linear(view(x)) becomes view'(linear(view''(x))),
// where view'' keeps the order of rows.  Not where that is a copy in any case (windows of an image), of longer rows or
// by each of several products.  What is added to the result is such a view as well, or there is nothing to gain.
void behind_rows(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (!node.schema->by_rows) return;
  const bool normalises = normalises_rows(node);
  if (normalises && rewriter.op(index).attributes[attr::normalized_shape].size() != 1) return;
  ValueId source;
  int length;
  const auto combined = CombinedViews::back_from(rewriter, rewriter.input(node, 0), 3, source, length);
  if (!combined || length == 0 || combined->dims().size() < 2) return;
  const auto columns = [&](ValueId id) { return rewriter.shape(id)[rewriter.shape(id).size() - 1]; };
  std::vector<std::vector<int>> rows = combined->dims();
  const std::vector<int> row = rows.back();
  rows.pop_back();
  std::vector<int> order;
  for (const std::vector<int>& list : rows) order.insert(order.end(), list.begin(), list.end());
  if (std::is_sorted(order.begin(), order.end())) return;
  const ValueId viewed = rewriter.input(node, 0);
  const int64_t made_columns = columns(node.outputs[0]);
  if (!normalises && (made_columns > columns(viewed) || rewriter.uses(viewed) > 1)) {
    if (combined->rearranged(rows).is_copied()) return;
    if (row.size() == 1 && made_columns > 1 &&
        joins_apart(rewriter, index + 1, node.outputs[0], combined->with_size(row[0], made_columns)))
      return join_rows(rewriter, index);
  }
  // Each factor of the rows a dimension of its own, in the order of the source.
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::vector<int>> dims;
  for (int f : sorted) dims.push_back({f});
  dims.push_back(row);
  if (dims.size() > size_t(kMaxRank)) return;
  const CombinedViews first = combined->rearranged(dims);
  const auto steps = first.steps();
  // Back to the order that was asked for: views over the new op's result.
  Dims made = first.shape();
  made[made.size() - 1] = columns(node.outputs[0]);
  CombinedViews last(made);
  std::vector<int64_t> places;
  for (int f : order) places.push_back(std::find(sorted.begin(), sorted.end(), f) - sorted.begin());
  places.push_back(int64_t(sorted.size()));
  if (!steps || !last.permute(places) || !last.reshape(rewriter.shape(node.outputs[0]))) return;
  const auto after = last.steps();
  if (!after) return;
  // The operands of post-ops, without the view.
  Dims parts;
  for (int f : order) parts.push_back(combined->factors()[size_t(f)].size);
  parts.push_back(columns(node.outputs[0]));
  std::vector<int64_t> inverse(places.size());
  for (size_t i = 0; i < places.size(); ++i) inverse[size_t(places[i])] = int64_t(i);
  std::vector<ValueId> inputs = rewriter.inputs(node);
  for (const PostOp& step : rewriter.post_ops(index)) {
    if (!step.reads_input()) continue;
    ValueId& operand = inputs[size_t(operand_of(*node.schema, step))];
    const auto undone = without_view(rewriter, index, operand, parts, inverse);
    if (!undone) return;
    operand = *undone;
  }
  const std::string schema = node.schema->name, title = node.name;
  const Attributes attributes = node.attributes;
  inputs[0] = insert_steps(rewriter, index, source, *steps);
  const ValueId y = rewriter.insert(index, schema, attributes, inputs, title);
  rewrite_as_steps(rewriter, index, y, *after);
}

// slice(view(linear)) along a factor of the channels becomes view'(slice(linear)).
void behind_slice(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  ValueId source;
  int length;
  const auto combined = CombinedViews::back_from(rewriter, rewriter.input(node, 0), 3, source, length);
  if (!combined || length == 0) return;
  if (!made_by(rewriter, source, is_linear)) return;
  const Op op = rewriter.op(index);
  const Dims &from = op.in(0).shape, &to = op.out().shape;
  int axis = -1;
  for (int d = 0; d < from.size(); ++d) {
    if (from[d] == to[d]) continue;
    if (axis >= 0 || op.attributes[attr::steps][size_t(d)] != 1) return;
    axis = d;
  }
  if (axis < 0 || combined->dims()[size_t(axis)].size() != 1 || to[axis] == 0) return;
  const int f = combined->dims()[size_t(axis)][0];
  const Dims& whole = rewriter.shape(source);
  const int dim = combined->factors()[size_t(f)].dim;
  if (!combined->is_outermost(f) || dim != whole.size() - 1) return;
  const auto steps = combined->with_size(f, to[axis]).steps();
  if (!steps) return;
  const int64_t span = combined->span(f), start = op.attributes[attr::starts][size_t(axis)] * span;
  Attributes attributes;
  attributes.set(attr::axes, std::vector<int64_t>{dim});
  attributes.set(attr::starts, std::vector<int64_t>{start});
  attributes.set(attr::ends, std::vector<int64_t>{start + to[axis] * span});
  const ValueId part = rewriter.insert(index, "slice", attributes, {source}, node.name);
  rewrite_as_steps(rewriter, index, part, *steps);
}

// A split of what is a view of linear becomes slices, which know how to move.
void as_slices(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const ValueId x = rewriter.input(node, 0);
  ValueId source;
  int length;
  const auto combined = CombinedViews::back_from(rewriter, x, 3, source, length);
  if (!combined || !made_by(rewriter, source, is_linear)) return;
  const Op op = rewriter.op(index);
  const int64_t dim = op.attributes[attr::dim];
  const std::vector<ValueId> parts = node.outputs;
  const std::string title = node.name;
  int64_t start = 0;
  for (ValueId part : parts) {
    const int64_t count = rewriter.shape(part)[int(dim)];
    if (rewriter.uses(part) > 0) {
      Attributes attributes;
      attributes.set(attr::axes, std::vector<int64_t>{dim});
      attributes.set(attr::starts, std::vector<int64_t>{start});
      attributes.set(attr::ends, std::vector<int64_t>{start + count});
      rewriter.redirect(part, rewriter.insert(index, "slice", attributes, {x}, title));
    }
    start += count;
  }
}

// A product of two matrices, turned, is the product of both turned in the other order: as the gradient of a parameter
// that is read turned.
void turn_product(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const ValueId y = rewriter.input(node, 0);
  const int made = rewriter.maker(y);
  if (made < 0 || rewriter.uses(y) != 1 || rewriter.shape(y).size() != 2) return;
  const Node& product = rewriter.node(size_t(made));
  if (!is_matrix_product(product) || !rewriter.post_ops(size_t(made)).empty()) return;
  const std::vector<ValueId> inputs = rewriter.inputs(product);
  // Weights stay the right factor, which kernels pack.
  const auto is_matrix = [&](ValueId id) { return rewriter.shape(id).size() == 2 && !rewriter.is_given(id); };
  if (!is_matrix(inputs[0]) || !is_matrix(inputs[1]) || (inputs.size() > kBias && inputs[kBias] != kNoValue)) return;
  if (rewriter.op(index).attributes[attr::dims] != std::vector<int64_t>{1, 0}) return;
  const Op op = rewriter.op(size_t(made));
  Attributes attributes{{attr::transpose_a, !op.attributes[attr::transpose_b]},
                        {attr::transpose_b, !op.attributes[attr::transpose_a]}};
  const std::string name = product.name;
  rewriter.rewrite(index, "matmul", attributes, {inputs[1], inputs[0]}, name);
}

// Factors whose last two dimensions are exchanged are read turned; not rows that weights multiply, for linear.
void read_turned(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const Op op = rewriter.op(index);
  Attributes attributes = node.attributes;
  std::vector<ValueId> inputs = rewriter.inputs(node);
  bool any = false;
  for (size_t k : {0, 1}) {
    const int made = rewriter.maker(inputs[k]);
    if (k == 0 && rewriter.is_given(inputs[1])) continue;
    if (made < 0 || !is_permute(rewriter.node(size_t(made)))) continue;
    std::vector<int64_t> dims = rewriter.op(size_t(made)).attributes[attr::dims];
    const size_t rank = dims.size();
    if (rank < 2) continue;
    std::swap(dims[rank - 1], dims[rank - 2]);
    if (!std::is_sorted(dims.begin(), dims.end())) continue;
    const auto& key = k == 0 ? attr::transpose_a : attr::transpose_b;
    attributes.set(key, !op.attributes[key]);
    inputs[k] = rewriter.input(rewriter.node(size_t(made)), 0);
    any = true;
  }
  const std::string name = node.name;
  if (any) rewriter.rewrite(index, "matmul", attributes, inputs, name);
}

int run_move_views(Graph& graph, Context&) {
  return sweep(graph, [](Rewriter& rewriter, size_t index) {
    const Node& node = rewriter.node(index);
    if (operation_of(node) != Operation::none) {
      before_binary(rewriter, index);
    } else if (applies_function(node)) {
      before_unary(rewriter, index);
    } else if (is_permute(node)) {
      turn_product(rewriter, index);
    } else if (is_matrix_product(node)) {
      read_turned(rewriter, index);
    } else if (is_slice(node)) {
      behind_slice(rewriter, index);
    } else if (is_split(node)) {
      as_slices(rewriter, index);
    } else {
      behind_rows(rewriter, index);
    }
  });
}

}  // namespace

Pass move_views() {
  return {"move_views",
          "Moves arithmetic and activations before the view of a product's result, permutations of rows behind linear "
          "and layer_norm, and slices and splits of linear's channels before views, so that other passes find "
          "neighbours; a turned product of matrices is one of both turned, and matmul reads turned factors so.  Exact.",
          run_move_views};
}

}  // namespace pl::passes
