// Kind topk: the k largest or smallest elements of each row, in order.  Rows are gathered one at a time.
#include <limits>

#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"
#include "providers/host/reduce/sorted_row.h"

namespace pl::host {
namespace {

constexpr double kTopkNanoseconds = 3;  // work of one element on one core

template <class C>
struct TopkBody {
  bool largest;
  int64_t skip, k;
  SplitWalk split;  // operand 0: x, 1: values, 2: indices; along the rows x alone
  DimOffset value_at, index_at;
  LoadRun<C> load;
  StoreRun<C> store;
  PaddingZeroer zero_values, zero_indices;

  void operator()(const KernelArguments& arguments) const {
    using Key = std::conditional_t<std::is_same_v<C, float>, uint32_t, uint64_t>;
    const void* x = input(arguments, 0);
    void* values = output(arguments, 0);
    int64_t* indices = static_cast<int64_t*>(output(arguments, 1));
    const int64_t n = split.along_elements;
    for (const Nest& nest : split.kept)
      for_each_run(nest, kTopkNanoseconds * double(n), [&](const int64_t* offsets, int64_t rows) {
        std::vector<C> row(static_cast<size_t>(n));
        std::vector<int64_t> places(static_cast<size_t>(k - skip));
        SortedRow<Key> sorted(n);
        const int64_t* step = nest.run().stride;
        for (int64_t i = 0; i < rows; ++i) {
          gather_row(split, 0, load, x, offsets[0] + i * step[0], row.data());
          sort_keys(row.data(), n, largest, sorted.keys());
          sorted.places(skip, k, places.data());
          for (int64_t j = 0; j < k - skip; ++j) {
            const int64_t place = places[size_t(j)];
            store(&row[size_t(place)], 1, values, offsets[1] + i * step[1] + value_at(j), 1);
            indices[offsets[2] + i * step[2] + index_at(j)] = place;
          }
        }
      });
    zero_values.run(values);
    zero_indices.run(indices);
  }
};

template <class C>
void add_topk(const Op& op, CandidateList& out, LoadRun<C> load, StoreRun<C> store) {
  const int dim = int(op.attributes[attr::dim]);
  std::vector<bool> along(size_t(op.in(0).rank()), false);
  along[size_t(dim)] = true;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), values = op.out(0).with_layout(layout),
                     indices = op.out(1).with_layout(layout);
    add_candidate(
        out, "topk", Quality::fair, {x}, {values, indices},
        [=, k = op.attributes[attr::k], skip = op.attributes[attr::skip], largest = op.attributes[attr::largest]] {
          SplitWalk split(x.shape, along, {{x, {}}});
          Dims kept = x.shape;
          kept[dim] = k > skip ? 1 : 0;
          split.kept = make_nests(kept, {{x, {}}, {values, {}}, {indices, {}}});
          return TopkBody<C>{largest,
                             skip,
                             k,
                             std::move(split),
                             DimOffset(values, dim),
                             DimOffset(indices, dim),
                             load,
                             store,
                             PaddingZeroer(values),
                             PaddingZeroer(indices)};
        });
  }
}

void list_topk(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  if (const int64_t size = op.in(0).shape[int(op.attributes[attr::dim])]; size > std::numeric_limits<uint32_t>::max())
    return out.refuse("host", concat("topk: rows of ", size, " elements, whose places do not fit 32 bits"));
  if (is_floating(dtype)) return add_topk(op, out, float_loader(dtype), float_storer(dtype));
  add_topk(op, out, integer_loader(dtype), integer_storer(dtype));
}
PL_HOST_KIND("topk", list_topk);

}  // namespace
}  // namespace pl::host
