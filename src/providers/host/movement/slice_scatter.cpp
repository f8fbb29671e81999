// Kind slice_scatter: src copied to its part of x, or of a copy of x.
#include "providers/host/common/host.h"
#include "providers/host/reorder/copy.h"

namespace pl::host {
namespace {

struct SliceScatterBody {
  CopyNests whole, part;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    if (x != y) whole.run(x, y);
    part.run(input(arguments, 1), y);
  }
};

void list_slice_scatter(const Op& op, CandidateList& out) {
  const Ints &starts = op.attributes[attr::starts], &steps = op.attributes[attr::steps];
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    if (layout.block_count() > 0) continue;  // parts of blocks
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    const TensorDesc src = any_strided_view_as(op.in(1), layout);
    TensorDesc part = y;
    for (int d = 0; d < y.rank(); ++d) {
      part.offset += starts[size_t(d)] * y.strides[d];
      part.strides[d] = y.strides[d] * steps[size_t(d)];
    }
    part.shape = src.shape;
    add_candidate(out, "slice_scatter", Quality::fast, {x, src}, {y}, [=] {
      return SliceScatterBody{CopyNests(x.shape, Operand{y, {}}, Operand{x, {}}),
                              CopyNests(src.shape, Operand{part, {}}, Operand{src, {}})};
    });
    out.candidates.back().in_place = 1;
  }
}
PL_HOST_KIND("slice_scatter", list_slice_scatter);

}  // namespace
}  // namespace pl::host
