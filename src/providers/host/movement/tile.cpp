// Kind tile: copies that double what is there.
#include "providers/host/common/host.h"
#include "providers/host/reorder/copy.h"

namespace pl::host {
namespace {

// The first tile is copied from x; each dimension in turn is then filled from what is already there.
struct TileBody {
  CopyNests first;
  std::vector<CopyNests> more;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    void* y = output(arguments);
    first.run(input(arguments, 0), y);
    for (const CopyNests& copy : more) copy.run(y, y);
    zeroer.run(y);
  }
};

void list_tile(const Op& op, CandidateList& out) {
  const std::vector<int64_t>& dims = op.attributes[attr::dims];
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    const TensorDesc x = dense_as(op.in(0), layout), y = op.out().with_layout(layout);
    add_candidate(out, "tile", Quality::fast, {x}, {y}, [=] {
      const int rank = y.rank();
      const TensorDesc lifted = with_rank(x, rank);
      const bool empty = y.elements() == 0;
      Dims done = empty ? y.shape : lifted.shape, begin = Dims::filled(rank, 0);
      TileBody body{CopyNests(done, {y, {}}, {empty ? y : lifted, {}}), {}, PaddingZeroer(y)};
      for (int dim = rank - 1; dim >= 0 && !empty; --dim) {
        // Twice as much with each copy: few copies, large ones.
        for (int64_t size = lifted.shape[dim], whole = size * dims[size_t(dim)]; done[dim] < whole;) {
          Dims part = done;
          part[dim] = std::min(done[dim], whole - done[dim]);
          begin[dim] = done[dim];
          body.more.emplace_back(part, Operand{y, begin}, Operand{y, {}});
          begin[dim] = 0;
          done[dim] += part[dim];
        }
      }
      return body;
    });
  }
}
PL_HOST_KIND("tile", list_tile);

}  // namespace
}  // namespace pl::host
