// move_merges: dimensions that a copy merged into the first one, as the heads of several texts are for a product of
// stacks of matrices, stay apart in ops that leave them apart; the merge moves behind.  Heads are then read where they
// lie, and patterns of one text are those of several.
#include "graph/passes/combined_views.h"
#include "graph/passes/passes.h"

namespace pl::passes {
namespace {

constexpr int kMostViews = 3;  // of a merge, back from its end

// The sizes that a copy merged into the first dimension; none if no copy did.
std::vector<int64_t> merged_sizes(Rewriter& rewriter, ValueId id) {
  ValueId source;
  int length;
  const auto combined = CombinedViews::back_from(rewriter, id, kMostViews, source, length);
  if (!combined || length == 0 || combined->dims().empty() || !combined->is_copied(0)) return {};
  const std::vector<int>& first = combined->dims()[0];
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < first.size(); ++i) {
    if (i == 0 || first[i] != first[i - 1] + 1) sizes.push_back(1);
    sizes.back() *= combined->factors()[size_t(first[i])].size;
  }
  return sizes;
}

// The first dimension of a shape in parts.
Dims apart(const Dims& shape, const std::vector<int64_t>& sizes) {
  Dims result(sizes);
  for (int d = 1; d < shape.size(); ++d) result.push_back(shape[d]);
  return result;
}

// The sizes that a reshape merged into the first dimension; none if it did something else.  The last one may be a part
// of the dimension that followed, as heads are of channels.
std::vector<int64_t> reshaped_sizes(Rewriter& rewriter, ValueId id) {
  const Node* merge = made_by(rewriter, id, is_reshape);
  if (!merge) return {};
  const Dims &from = rewriter.shape(rewriter.input(*merge, 0)), &to = rewriter.shape(id);
  const int more = from.size() - to.size();
  if (more < 0 || to.size() < 3) return {};
  std::vector<int64_t> sizes = from.vector();
  sizes.resize(size_t(more) + 1);
  Dims whole = from;
  if (more == 0) {
    const int64_t part = to[0] / from[0];
    if (part < 2) return {};
    sizes.push_back(part);
    whole = Dims{from[0], part, from[1] / part};
    for (int d = 2; d < from.size(); ++d) whole.push_back(from[d]);
  }
  if (apart(to, sizes) != whole) sizes.clear();
  return sizes;
}

// Whether what a view shows is a product's result: scores, to which something is added by head.
bool shows_product(Rewriter& rewriter, ValueId id) {
  const Node* view = made_by(rewriter, id, is_reshape);
  return view && rewriter.uses(id) == 1 && made_by(rewriter, rewriter.input(*view, 0), is_matrix_product);
}

// What stands in a value's place where its first dimension is in parts.
ValueId taken_apart(Rewriter& rewriter, size_t before, ValueId id, const std::vector<int64_t>& sizes) {
  const Dims shape = apart(rewriter.shape(id), sizes);
  ValueId source;
  int length;
  if (auto views = CombinedViews::back_from(rewriter, id, kMostViews, source, length); views && length > 0)
    if (views->reshape(shape))
      if (const auto steps = views->steps()) return insert_steps(rewriter, before, source, *steps);
  Attributes attributes;
  attributes.set(attr::shape, shape.vector());
  return rewriter.insert(before, "reshape", attributes, {id}, "");
}

// The attributes of an op whose inputs have `more` dimensions at the front.
std::optional<Attributes> with_more_axes(const Op& op, const Attributes& given, int64_t more) {
  Attributes attributes = given;
  for (const AxisRule& rule : op.schema->axes) {
    if (rule.meaning == AxisRule::Meaning::last) continue;
    const AttributeValue* value = op.attributes.find_value(rule.attribute);  // as infer completed it: none is negative
    if (rule.meaning != AxisRule::Meaning::along || !value) return std::nullopt;
    if (const auto* one = std::get_if<int64_t>(value)) {
      attributes.set_value(rule.attribute, *one + more);
    } else if (auto* several = std::get_if<std::vector<int64_t>>(value)) {
      std::vector<int64_t> moved = *several;
      for (int64_t& axis : moved) axis += more;
      attributes.set_value(rule.attribute, moved);
    } else {
      return std::nullopt;
    }
  }
  return attributes;
}

void move_merge_behind(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const Schema& schema = *node.schema;
  if (schema.by_rows || node.outputs.size() != 1) return;
  const Op op = rewriter.op(index);
  if (op.has_empty_tensor()) return;
  const bool elementwise = is_elementwise(op), product = is_matrix_product(node);
  if (!elementwise && !schema.other_axes && !product && !is_attention(node)) return;
  const Dims shape = op.out().shape;
  const std::vector<ValueId> inputs = rewriter.inputs(node);
  std::vector<bool> merged(inputs.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i)
    merged[i] = op.has(int(i)) && op.in(int(i)).rank() == shape.size() && op.in(int(i)).shape[0] == shape[0];
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < inputs.size() && sizes.empty(); ++i) {
    if (!merged[i]) continue;
    sizes = merged_sizes(rewriter, inputs[i]);
    // No copy, but attention's products of stacks, and what is between them, are patterns in this form.
    const bool in_pattern =
        elementwise ? shows_product(rewriter, inputs[i]) : product && shape.size() == 3 && merged[0] && merged[1];
    if (sizes.empty() && in_pattern) sizes = reshaped_sizes(rewriter, inputs[i]);
  }
  const int more = int(sizes.size()) - 1;
  if (more < 1 || shape.size() + more > kMaxRank || !keeps_images_apart(op, merged)) return;
  const auto attributes = with_more_axes(op, node.attributes, more);
  if (!attributes) return;
  const std::string name = node.name, schema_name = schema.name;
  std::vector<ValueId> parts = inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (merged[i]) parts[i] = taken_apart(rewriter, index, inputs[i], sizes);
  const ValueId y = rewriter.insert(index, schema_name, *attributes, parts, name);
  Attributes merge;
  merge.set(attr::shape, shape.vector());
  rewriter.rewrite(index, "reshape", merge, {y}, name + ".view");
}

int run_move_merges(Graph& graph, Context&) { return sweep(graph, move_merge_behind); }

}  // namespace

Pass move_merges() {
  return {"move_merges",
          "Dimensions that a copy merged into the first one, as heads of several texts for products of stacks of "
          "matrices, are merged behind ops that leave them apart, so that these read them where they lie.  Exact.",
          run_move_merges};
}

}  // namespace pl::passes
