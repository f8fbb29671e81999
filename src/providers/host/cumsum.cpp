// Kind cumsum: running sums, in double, one row gathered at a time.
#include "providers/host/host.h"
#include "providers/host/split_walk.h"

namespace pl::host {
namespace {

struct CumsumBody {
  SplitWalk walk;  // operand 0: y, 1: x
  LoadRun<double> load;
  StoreRun<double> store;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    const int64_t n = walk.along_elements;
    for_each_kept(walk, 4.0 * double(n), [&](const int64_t* offsets) {
      std::vector<double> row(static_cast<size_t>(n));
      gather_row(walk, 1, load, x, offsets[1], row.data());
      for (int64_t i = 1; i < n; ++i) row[size_t(i)] += row[size_t(i - 1)];
      scatter_row(walk, 0, store, y, offsets[0], row.data());
    });
    zeroer.run(y);
  }
};

void list_cumsum(const Op& op, CandidateList& out) {
  std::vector<bool> along(size_t(op.in(0).rank()), false);
  along[size_t(op.attributes.integer("dim"))] = true;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    add_candidate(out, "cumsum", Quality::fair, {x}, {y}, [=] {
      return CumsumBody{SplitWalk(x.shape, along, {{y, {}}, {x, {}}}), double_loader(x.dtype), double_storer(y.dtype),
                        PaddingZeroer(y)};
    });
  }
}
PL_HOST_KIND("cumsum", list_cumsum);

}  // namespace
}  // namespace pl::host
