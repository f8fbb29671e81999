// join_rotary: rotary embeddings of neighbouring heads by the same tables become one, whose result is read in slices:
// those of queries and keys, which lie side by side once their products were joined (join_linear).
//
// The slices are strided views, so it is done only where each reader takes such a view on this device.
#include <algorithm>

#include "graph/named_ops.h"
#include "graph/passes/combined_views.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/strided_readers.h"
#include "ops/view.h"

namespace pl::passes {
namespace {

constexpr int kMostViewsBehindRotary = 4;  // between it and its reader

// A rotary embedding whose x is columns of some rows, parted into heads, whose dimensions then changed places.
struct Turned {
  size_t index = 0;
  ValueId rows = kNoValue;
  int64_t first = 0, columns = 0;  // of the rows
  Dims heads;                      // shape after parting
  int parted = 0;                  // dimension of the heads there
  std::vector<int64_t> dims;       // of the permutation; empty: none, as of one row
  int axis = 0;                    // of the heads in x
  bool interleaved = false;
};

// The dimension of the heads in a shape that columns of rows were parted into, all rows before it; -1 if there is none.
int heads_in(const Dims& shape, const Dims& columns) {
  const int last = columns.size() - 1;
  int64_t rows = 1, before = 1;
  for (int d = 0; d < last; ++d) rows *= columns[d];
  for (int d = 0; d + 1 < shape.size(); before *= shape[d++])
    if (before == rows && shape[d] * shape[shape.size() - 1] == columns[last]) return d;
  return -1;
}

std::optional<Turned> turned_at(Rewriter& rewriter, size_t index) {
  if (!is_rotary_embedding(rewriter.node(index))) return std::nullopt;
  ValueId apart = rewriter.input(rewriter.node(index), 0);
  const int moved = sole_maker(rewriter, apart, is_permute);
  if (moved >= 0) apart = rewriter.input(rewriter.node(size_t(moved)), 0);
  const int parted = sole_maker(rewriter, apart, is_reshape);
  if (parted < 0) return std::nullopt;
  const int taken = sole_maker(rewriter, rewriter.input(rewriter.node(size_t(parted)), 0), is_slice);
  if (taken < 0) return std::nullopt;
  const Op slice = rewriter.op(size_t(taken));
  const int last = slice.in(0).rank() - 1;
  Turned found;
  found.index = index;
  found.interleaved = rewriter.op(index).attributes[attr::interleaved];
  found.rows = rewriter.input(rewriter.node(size_t(taken)), 0);
  found.first = slice.attributes[attr::starts][size_t(last)];
  found.columns = slice.out().shape[last];
  found.heads = rewriter.shape(apart);
  found.parted = heads_in(found.heads, slice.out().shape);
  if (found.parted < 0 || slice.attributes[attr::steps][size_t(last)] != 1) return std::nullopt;
  for (int d = 0; d < last; ++d)
    if (slice.in(0).shape[d] != slice.out().shape[d]) return std::nullopt;
  found.axis = found.parted;
  if (moved < 0) return found;
  found.dims = rewriter.op(size_t(moved)).attributes[attr::dims];
  found.axis = int(std::find(found.dims.begin(), found.dims.end(), int64_t(found.parted)) - found.dims.begin());
  const bool columns_stay = found.dims.back() == int64_t(found.heads.size() - 1);
  return columns_stay ? std::optional(found) : std::nullopt;
}

// Whether a table says the same of all heads.
bool is_of_all_heads(const Rewriter& rewriter, ValueId table, const Turned& turned) {
  const Dims& shape = rewriter.shape(table);
  const int place = shape.size() - (turned.heads.size() - turned.axis);
  return place < 0 || shape[place] == 1;
}

bool adjoin(Rewriter& rewriter, const Turned& a, const Turned& b) {
  const Node &one = rewriter.node(a.index), &other = rewriter.node(b.index);
  for (size_t k = 1; k < 3; ++k)
    if (rewriter.input(one, k) != rewriter.input(other, k) || !is_of_all_heads(rewriter, rewriter.input(one, k), a))
      return false;
  if (a.heads.size() != b.heads.size() || a.parted != b.parted) return false;
  for (int d = 0; d < a.heads.size(); ++d)
    if (d != a.parted && a.heads[d] != b.heads[d]) return false;
  return a.interleaved == b.interleaved && a.rows == b.rows && a.dims == b.dims && a.first + a.columns == b.first;
}

// `first` has the columns before those of `second`.
void join_heads(Rewriter& rewriter, StridedReaders& readers, const Turned& first, const Turned& second) {
  const int64_t counts[] = {first.heads[first.parted], second.heads[second.parted]};
  TensorDesc whole = rewriter.desc(rewriter.node(first.index).outputs[0]);
  Dims shape = whole.shape;
  shape[first.axis] = counts[0] + counts[1];
  whole = TensorDesc::dense(whole.dtype, shape);
  int64_t begin = 0;
  for (const Turned* each : {&first, &second}) {
    const ValueId y = rewriter.node(each->index).outputs[0];
    Dims starts = Dims::filled(whole.rank(), 0);
    starts[first.axis] = begin;
    begin += counts[each == &second];
    const auto view = view_sliced(whole, starts, rewriter.shape(y), Dims::filled(whole.rank(), 1));
    if (!view || !readers.take(y, *view, kMostViewsBehindRotary)) return;
  }
  const auto sliced = [](int64_t from, int64_t to, int64_t axis) {
    return Attributes{{attr::starts, std::vector<int64_t>{from}},
                      {attr::ends, std::vector<int64_t>{to}},
                      {attr::axes, std::vector<int64_t>{axis}}};
  };
  const size_t before = std::min(first.index, second.index);
  const std::string name = rewriter.node(before).name;
  const std::vector<ValueId> given = rewriter.inputs(rewriter.node(before));
  const int64_t last = rewriter.shape(first.rows).size() - 1;
  const ValueId columns = rewriter.insert(before, "slice", sliced(first.first, second.first + second.columns, last),
                                          {first.rows}, name + ".columns");
  Dims heads = first.heads;
  heads[first.parted] = counts[0] + counts[1];
  std::vector<CombinedViews::Step> steps{{false, heads.vector()}};
  if (!first.dims.empty()) steps.push_back({true, first.dims});
  const ValueId x = insert_steps(rewriter, before, columns, steps);
  const ValueId y = rewriter.insert(before, "rotary_embedding", Attributes{{attr::interleaved, first.interleaved}},
                                    {x, given[1], given[2]}, name + ".joined");
  rewriter.rewrite(first.index, "slice", sliced(0, counts[0], first.axis), {y});
  rewriter.rewrite(second.index, "slice", sliced(counts[0], counts[0] + counts[1], first.axis), {y});
}

void join_all(Rewriter& rewriter, StridedReaders& readers) {
  std::optional<Turned> before;
  for (size_t i = 0; i < rewriter.size(); ++i) {
    if (!rewriter.live(i)) continue;
    auto turned = turned_at(rewriter, i);
    if (!turned) continue;
    if (before && adjoin(rewriter, *before, *turned)) {
      join_heads(rewriter, readers, *before, *turned);
      turned.reset();
    } else if (before && adjoin(rewriter, *turned, *before)) {
      join_heads(rewriter, readers, *turned, *before);
      turned.reset();
    }
    before = std::move(turned);
  }
}

}  // namespace

Pass join_rotary(Device* device) {
  return {
      "join_rotary",
      "Makes rotary embeddings of neighbouring heads by the same tables, as those of queries and keys are, one whose "
      "result is read in slices, where each op is a launch and all readers take strided views.  Exact.",
      [device](Graph& graph, Context& context) {
        if (!device || !device->traits().queued) return 0;
        Rewriter rewriter(graph);
        StridedReaders readers(rewriter, context, *device);
        join_all(rewriter, readers);
        return rewriter.changes();
      }};
}

}  // namespace pl::passes
