// Kind topk: the k largest or smallest elements of each row, in order.  Rows are gathered one at a time; what is sorted
// are indices, so that elements keep their places and those that are equal keep their order.
#include <algorithm>
#include <numeric>

#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"

namespace pl::host {
namespace {

constexpr double kTopkNanoseconds = 3;  // work of one element on one core
constexpr int64_t kMuch = 8;  // part of a row from which on it is split first, then sorted; below, a heap does

// Whether element a of a row comes before element b.
template <bool Largest, class C>
struct Before {
  const C* row;
  bool operator()(int64_t a, int64_t b) const {
    const C x = row[a], y = row[b];
    if (Largest ? x > y : x < y) return true;
    if (Largest ? x < y : x > y) return false;
    const bool x_nan = x != x, y_nan = y != y;  // larger than any number
    return x_nan != y_nan ? x_nan == Largest : a < b;
  }
};

// Puts the first k of n indices in order.
template <class C, class Order>
void choose(const Order& before, int64_t* indices, int64_t k, int64_t n) {
  std::iota(indices, indices + n, int64_t(0));
  if (k * kMuch <= n) return std::partial_sort(indices, indices + k, indices + n, before);
  if (k < n) std::nth_element(indices, indices + k, indices + n, before);
  std::sort(indices, indices + k, before);
}

template <class C>
struct TopkBody {
  bool largest;
  int64_t k;
  SplitWalk split;  // operand 0: x, 1: values, 2: indices; along the rows x alone
  DimOffset value_at, index_at;
  LoadRun<C> load;
  StoreRun<C> store;
  PaddingZeroer zero_values, zero_indices;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* values = output(arguments, 0);
    int64_t* indices = static_cast<int64_t*>(output(arguments, 1));
    const int64_t n = split.along_elements;
    for_each_kept(split, kTopkNanoseconds * double(n), [&](const int64_t* offsets) {
      std::vector<C> row(static_cast<size_t>(n));
      std::vector<int64_t> order(static_cast<size_t>(n));
      gather_row(split, 0, load, x, offsets[0], row.data());
      if (largest)
        choose<C>(Before<true, C>{row.data()}, order.data(), k, n);
      else
        choose<C>(Before<false, C>{row.data()}, order.data(), k, n);
      for (int64_t j = 0; j < k; ++j) {
        store(&row[size_t(order[size_t(j)])], 1, values, offsets[1] + value_at(j), 1);
        indices[offsets[2] + index_at(j)] = order[size_t(j)];
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
    add_candidate(out, "topk", Quality::fair, {x}, {values, indices},
                  [=, k = op.attributes[attr::k], largest = op.attributes[attr::largest]] {
                    SplitWalk split(x.shape, along, {{x, {}}});
                    Dims kept = x.shape;
                    kept[dim] = k > 0 ? 1 : 0;
                    split.kept = make_nests(kept, {{x, {}}, {values, {}}, {indices, {}}});
                    return TopkBody<C>{
                        largest, k,     std::move(split),      DimOffset(values, dim), DimOffset(indices, dim),
                        load,    store, PaddingZeroer(values), PaddingZeroer(indices)};
                  });
  }
}

void list_topk(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  if (is_floating(dtype)) return add_topk(op, out, float_loader(dtype), float_storer(dtype));
  add_topk(op, out, integer_loader(dtype), integer_storer(dtype));
}
PL_HOST_KIND("topk", list_topk);

}  // namespace
}  // namespace pl::host
