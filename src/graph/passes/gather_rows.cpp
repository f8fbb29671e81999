// gather_rows: rolls, and the windows that an image is parted into or put together from, become one look-up of rows.
//
// A shifted window of a Swin transformer is two rolls, each a concat of two slices, and a permutation: as many copies.
// Where slices, concats, reshapes and permutations leave the last dimension alone, what they do is a list of rows. Rows
// may be joined to longer ones, as those of the four neighbours that patch merging makes one of.
#include <numeric>

#include "dispatch/context.h"
#include "graph/passes/combined_views.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/rewriter.h"

namespace pl::passes {
namespace {

constexpr int64_t kMostRows = 1 << 18;  // a list of 2 MB
constexpr int kMostPatternNodes = 64;   // of one pattern
constexpr int kMostViewsOfRows = 4;     // one behind the other

// What a value is: rows of `source`, in the order of the value's elements; each of its own rows is one of them or some.
struct Rows {
  ValueId source = kNoValue;
  std::vector<int64_t> list;
};

int64_t last_size(const Dims& shape) { return shape[shape.size() - 1]; }

// What `taken`, a list of positions among the rows of a whole, are, where each row of it is `pieces` of the list;
// positions in row-major order.
std::vector<int64_t> picked(const std::vector<int64_t>& list, const std::vector<int64_t>& taken, int64_t pieces) {
  std::vector<int64_t> result;
  result.reserve(taken.size() * size_t(pieces));
  for (int64_t row : taken) result.insert(result.end(), list.begin() + row * pieces, list.begin() + (row + 1) * pieces);
  return result;
}

// Positions first + sum over d of i[d] * steps[d], for all i below `sizes`, row-major.
std::vector<int64_t> positions(const std::vector<int64_t>& sizes, const std::vector<int64_t>& steps, int64_t first) {
  std::vector<int64_t> result{first};
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> grown;
    grown.reserve(result.size() * size_t(sizes[d]));
    for (int64_t at : result)
      for (int64_t i = 0; i < sizes[d]; ++i) grown.push_back(at + i * steps[d]);
    result = std::move(grown);
  }
  return result;
}

// Row-major steps of all dimensions but the last, in rows.
std::vector<int64_t> row_steps(const Dims& shape) {
  std::vector<int64_t> steps(size_t(shape.size() - 1), 1);
  for (int d = shape.size() - 3; d >= 0; --d) steps[size_t(d)] = steps[size_t(d) + 1] * shape[d + 1];
  return steps;
}

// Products and normalisations of rows, and sums of such results: of three dimensions, (n, rows, columns), which no
// image has.
bool makes_rows(const Node& node, const Dims& shape) {
  return node.schema->by_rows || (operation_of(node) != Operation::none && shape.size() == 3);
}

class Finder {
 public:
  explicit Finder(Rewriter& rewriter) : rewriter_(rewriter) {}

  // Nothing where the rows do not all come from one result that makes_rows().
  std::optional<Rows> find(ValueId id) {
    if (++nodes_ > kMostPatternNodes) return std::nullopt;
    const int maker = rewriter_.maker(id);
    if (maker < 0) return std::nullopt;
    const Node& node = rewriter_.node(size_t(maker));
    const Dims shape = rewriter_.shape(id);
    const int64_t elements = rewriter_.desc(id).elements();
    if (shape.size() < 2 || elements == 0 || elements / last_size(shape) > kMostRows) return std::nullopt;
    if (makes_rows(node, shape)) {
      Rows rows{id, std::vector<int64_t>(size_t(elements / last_size(shape)))};
      std::iota(rows.list.begin(), rows.list.end(), int64_t(0));
      return rows;
    }
    if (is_concat(node)) return joined(node, size_t(maker));
    const bool slices = is_slice(node), permutes = is_permute(node);
    if (!slices && !permutes && !is_reshape(node)) return std::nullopt;
    const ValueId x = rewriter_.input(node, 0);
    const Dims from = rewriter_.shape(x);
    if (from.size() < 2) return std::nullopt;
    if ((slices || permutes) && last_size(from) != last_size(shape)) return std::nullopt;
    const Op op = rewriter_.op(size_t(maker));
    const size_t last = size_t(from.size() - 1);
    std::vector<int64_t> steps = row_steps(from), dims;
    int64_t first = 0;
    if (slices) {
      const auto starts = op.attributes[attr::starts], strides = op.attributes[attr::steps];
      for (size_t d = 0; d < last; ++d) {
        first += starts[d] * steps[d];
        steps[d] *= strides[d];
      }
    } else if (permutes) {
      dims = op.attributes[attr::dims];
      if (dims[last] != int64_t(last)) return std::nullopt;
    }
    auto rows = find(x);
    if (!rows || last_size(shape) % last_size(rewriter_.shape(rows->source))) return std::nullopt;
    if (!slices && !permutes) return rows;
    std::vector<int64_t> sizes, ordered;
    for (size_t d = 0; d < last; ++d) {
      sizes.push_back(shape[int(d)]);
      ordered.push_back(steps[permutes ? size_t(dims[d]) : d]);
    }
    rows->list = picked(rows->list, positions(sizes, ordered, first),
                        last_size(shape) / last_size(rewriter_.shape(rows->source)));
    return rows;
  }

 private:
  std::optional<Rows> joined(const Node& node, size_t index) {
    const Dims shape = rewriter_.shape(node.outputs[0]);
    const int dim = int(rewriter_.op(index).attributes[attr::dim]);
    int64_t outer = 1;
    for (int d = 0; d < dim; ++d) outer *= shape[d];
    Rows result;
    std::vector<std::vector<int64_t>> parts;
    for (ValueId part : rewriter_.inputs(node)) {
      auto rows = find(part);
      if (!rows || (result.source != kNoValue && rows->source != result.source)) return std::nullopt;
      result.source = rows->source;
      parts.push_back(std::move(rows->list));
    }
    for (int64_t o = 0; o < outer; ++o)
      for (size_t k = 0; k < parts.size(); ++k) {
        const int64_t count = int64_t(parts[k].size()) / outer;
        result.list.insert(result.list.end(), parts[k].begin() + o * count, parts[k].begin() + (o + 1) * count);
      }
    return result;
  }

  Rewriter& rewriter_;
  int nodes_ = 0;
};

bool belongs(const Node& node) { return is_concat(node) || is_slice(node) || is_reshape(node) || is_permute(node); }

// Whether views alone need a copy: windows of an image, which no strides describe.  As rows in a list they may meet
// other such lists.
bool is_copied(Rewriter& rewriter, ValueId id) {
  ValueId source;
  int length;
  const auto combined = CombinedViews::back_from(rewriter, id, kMostViewsOfRows, source, length);
  return combined && length > 0 && combined->is_copied();
}

// Whether a value is a concat, or views of one.
bool has_concat(Rewriter& rewriter, ValueId id) {
  int maker = rewriter.maker(id);
  for (int steps = 0; maker >= 0 && steps < kMostPatternNodes; ++steps) {
    const Node& node = rewriter.node(size_t(maker));
    if (is_concat(node)) return true;
    if (!belongs(node)) return false;
    maker = rewriter.maker(rewriter.input(node, 0));
  }
  return false;
}

void gather(Rewriter& rewriter, Context& context, size_t index, const std::vector<std::vector<int32_t>>& consumers) {
  const Node& node = rewriter.node(index);
  if (!belongs(node) || is_slice(node)) return;
  // Only from the last of such nodes on, so that all of them are one look-up.
  const ValueId y = node.outputs[0];
  for (int32_t user : consumers[size_t(y)])
    if (rewriter.live(size_t(user)) && belongs(rewriter.node(size_t(user)))) return;
  if (!has_concat(rewriter, y) && !is_copied(rewriter, y)) return;
  const auto rows = Finder(rewriter).find(y);
  if (!rows) return;
  const Dims shape = rewriter.shape(y);
  const int64_t columns = last_size(rewriter.shape(rows->source)), count = int64_t(rows->list.size());
  const TensorRef list = Tensor::allocate(context.host(), TensorDesc::dense(DType::s64, Dims{count}));
  context.write(list, rows->list.data(), rows->list.size() * sizeof(int64_t));
  Attributes flat, along, back;
  flat.set(attr::shape, std::vector<int64_t>{rewriter.desc(rows->source).elements() / columns, columns});
  along.set(attr::dim, int64_t(0));
  back.set(attr::shape, shape.vector());
  const std::string title = node.name;
  const ValueId x = rewriter.insert(index, "reshape", flat, {rows->source}, "");
  const ValueId chosen =
      rewriter.insert(index, "index_select", along, {x, rewriter.add_constant(title + ".rows", list)}, title);
  rewriter.rewrite(index, "reshape", back, {chosen}, title + ".view");
}

int run_gather_rows(Graph& graph, Context& context) {
  const std::vector<std::vector<int32_t>> consumers = graph.consumers();
  return sweep(graph, [&](Rewriter& rewriter, size_t index) { gather(rewriter, context, index, consumers); });
}

}  // namespace

Pass gather_rows() {
  return {
      "gather_rows",
      "Makes slices, concats, reshapes and permutations that only bring rows of a product, a normalisation or a sum "
      "into another order, as the rolls of shifted windows, or join them, as patch merging does, one look-up of "
      "rows.  Exact.",
      run_gather_rows};
}

}  // namespace pl::passes
