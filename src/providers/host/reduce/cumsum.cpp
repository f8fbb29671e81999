// Kind cumsum: running sums and products, in double or of 64 bits, one row gathered at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"

namespace pl::host {
namespace {

template <class T>
using Modular = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;  // wraps around
template <class T>
T sum_of_two(T a, T b) {
  return T(Modular<T>(a) + Modular<T>(b));
}
template <class T>
T product_of(T a, T b) {
  return T(Modular<T>(a) * Modular<T>(b));
}
// log(exp(a) + exp(b)).
double exponents_joined(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  const double larger = std::max(a, b), smaller = std::min(a, b);
  return std::isinf(larger) ? larger : larger + std::log1p(std::exp(smaller - larger));
}

template <class T>
using Join = T (*)(T, T);

template <class T>
struct CumsumBody {
  SplitWalk walk;  // operand 0: y, 1: x
  Join<T> join;
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
      for (int64_t i = 1; i < n; ++i) row[size_t(i)] = join(row[size_t(i - 1)], row[size_t(i)]);
      scatter_row(walk, 0, store, y, offsets[0], row.data());
    });
    zeroer.run(y);
  }
};

template <class T>
void add_cumulation(const Op& op, CandidateList& out, Join<T> join, LoadRun<T> load, StoreRun<T> store) {
  std::vector<bool> along(size_t(op.in(0).rank()), false);
  along[size_t(op.attributes[attr::dim])] = true;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    add_candidate(out, op.schema->name, Quality::fair, {x}, {y}, [=] {
      return CumsumBody<T>{SplitWalk(x.shape, along, {{y, {}}, {x, {}}}), join, load, store, PaddingZeroer(y)};
    });
  }
}

void list_cumsum(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  const std::string& function = op.attributes[attr::function];
  const bool sums = function == "sum";
  if (is_floating(dtype)) {
    const Join<double> join = sums ? sum_of_two<double> : function == "prod" ? product_of<double> : exponents_joined;
    return add_cumulation<double>(op, out, join, double_loader(dtype), double_storer(dtype));
  }
  const Join<int64_t> join = sums ? sum_of_two<int64_t> : product_of<int64_t>;
  add_cumulation<int64_t>(op, out, join, integer_loader(dtype), integer_storer(dtype));
}
PL_HOST_KIND("cumsum", list_cumsum);

}  // namespace
}  // namespace pl::host
