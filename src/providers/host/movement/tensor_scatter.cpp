// Kind tensor_scatter: runs of update copied to where they belong in x, or in a copy of it.
#include <cstring>

#include "providers/host/common/host.h"

namespace pl::host {
namespace {

// x as (batch, outer, size, inner) of elements, update as (batch, outer, count, inner).
struct TensorScatterBody {
  int64_t batch, outer, size, count;
  size_t inner;  // bytes of one place
  bool circular;
  LoadRun<int64_t> load;

  void operator()(const KernelArguments& arguments) const {
    const char* x = static_cast<const char*>(input(arguments, 0));
    const char* update = static_cast<const char*>(input(arguments, 1));
    char* y = static_cast<char*>(output(arguments));
    const size_t run = size_t(size) * inner, added = size_t(count) * inner;
    std::vector<int64_t> at(static_cast<size_t>(batch));
    if (batch) load(input(arguments, 2), 0, 1, batch, at.data());
    for (const int64_t place : at)
      require(place >= 0 && (circular || place <= size - count), Code::invalid_argument, "tensor_scatter: at holds ",
              place, ", expected 0 to ", size - count, " (x.shape[dim] - update.shape[dim])");
    parallel_for(batch * outer, 8 + 0.03 * double(x == y ? added : run), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        char* to = y + size_t(i) * run;
        const char* from = update + size_t(i) * added;
        if (x != y) std::memcpy(to, x + size_t(i) * run, run);
        const int64_t first = size ? at[size_t(i / outer)] % size : 0, before = std::min(count, size - first);
        if (before) std::memcpy(to + size_t(first) * inner, from, size_t(before) * inner);
        if (before < count) std::memcpy(to, from + size_t(before) * inner, size_t(count - before) * inner);
      }
    });
  }
};

void list_tensor_scatter(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0)), update = dense_plain(op.in(1)), at = dense_plain(op.in(2)),
                   y = dense_plain(op.out());
  const int dim = int(op.attributes[attr::dim]);
  TensorScatterBody body{
      1, 1, x.shape[dim], update.shape[dim], size_of(x.dtype), op.attributes[attr::circular], integer_loader(at.dtype)};
  for (int d = 0; d < x.rank(); ++d) {
    if (d == 0 && at.rank()) {
      body.batch = x.shape[0];
    } else if (d < dim) {
      body.outer *= x.shape[d];
    } else if (d > dim) {
      body.inner *= size_t(x.shape[d]);
    }
  }
  add_candidate(out, "tensor_scatter", Quality::fast, {x, update, at}, {y}, [body] { return body; });
  out.candidates.back().in_place = 1;
}
PL_HOST_KIND("tensor_scatter", list_tensor_scatter);

}  // namespace
}  // namespace pl::host
