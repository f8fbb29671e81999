// Kind cumsum: running sums, in double or of 64 bits, one row gathered at a time.
#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"

namespace pl::host {
namespace {

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return int64_t(uint64_t(a) + uint64_t(b));
  else
    return a + b;
}

template <class T>
struct CumsumBody {
  SplitWalk walk;  // operand 0: y, 1: x
  LoadRun<T> load;
  StoreRun<T> store;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    const int64_t n = walk.along_elements;
    for_each_kept(walk, 4.0 * double(n), [&](const int64_t* offsets) {
      std::vector<T> row(static_cast<size_t>(n));
      gather_row(walk, 1, load, x, offsets[1], row.data());
      for (int64_t i = 1; i < n; ++i) row[size_t(i)] = sum_of(row[size_t(i - 1)], row[size_t(i)]);
      scatter_row(walk, 0, store, y, offsets[0], row.data());
    });
    zeroer.run(y);
  }
};

template <class T>
void add(const Op& op, CandidateList& out, LoadRun<T> load, StoreRun<T> store) {
  std::vector<bool> along(size_t(op.in(0).rank()), false);
  along[size_t(op.attributes.integer("dim"))] = true;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    add_candidate(out, "cumsum", Quality::fair, {x}, {y}, [=] {
      return CumsumBody<T>{SplitWalk(x.shape, along, {{y, {}}, {x, {}}}), load, store, PaddingZeroer(y)};
    });
  }
}

void list_cumsum(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  if (is_floating(dtype)) return add(op, out, double_loader(dtype), double_storer(dtype));
  add(op, out, integer_loader(dtype), integer_storer(dtype));
}
PL_HOST_KIND("cumsum", list_cumsum);

}  // namespace
}  // namespace pl::host
