// gather_backward and gather_elements_backward (kernels/gather/): sums repeat.
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/movement/named_slices.h"
#include "providers/opencl/reduce/row_sort.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

// The result as (outer, size, inner), `size` along the dimension that was looked up.
struct Lookup {
  int64_t outer = 1, size = 1, inner = 1;
  // As it lies in a dense layout without blocks.
  Lookup(const TensorDesc& out, int dim, const Layout& layout) {
    bool inside = false;
    for (int i = 0; i < out.rank(); ++i) {
      const int d = layout.order(i);
      (d == dim ? size : inside ? inner : outer) *= out.shape[d];
      inside |= d == dim;
    }
  }
};

int dim_of(const Op& op) { return int(op.attributes[attr::dim]); }

// Slices added up, by a list of the indices in order.
class Runs {
 public:
  Runs(const Op& op, const Layout& layout)
      : to_(op.out(), dim_of(op), layout),
        indices_(op.in(1).elements()),
        index_(op.in(1).dtype),
        grad_(op.in(0).dtype),
        dst_(op.out().dtype),
        sort_(DType::s32, 1, indices_, indices_, false),
        piece_(piece_of(to_.inner, int64_t(std::min(size_of(grad_), size_of(dst_))))) {
    // Parts of a run are added up one after the other: not too many of them.
    while (chunk_ * chunk_ < indices_ && chunk_ < 256) chunk_ *= 2;
  }
  bool possible() const { return indices_ == 0 || sort_.possible(); }
  size_t workspace_bytes() const {
    if (indices_ == 0) return 0;
    return parts_from() + size_t(to_.outer * chunks() * 2 * to_.inner) * sizeof(float);
  }
  std::unique_ptr<Kernel> prepare(OpenclDevice& device) const;

 private:
  int64_t chunks() const { return divided_up(indices_, chunk_); }
  size_t parts_from() const { return size_t(divided_up(int64_t(sort_.lists_workspace_bytes()), 64) * 64); }

  Lookup to_;
  int64_t indices_;
  DType index_, grad_, dst_;
  RowSort sort_;
  int64_t piece_, chunk_ = 32;
};

std::unique_ptr<Kernel> Runs::prepare(OpenclDevice& device) const {
  auto kernel = std::make_unique<KernelList>(device);
  KernelSource source("gather/gather_backward_runs.cl");
  source.define("GRAD_DTYPE", name_of(grad_)).define("DST_DTYPE", name_of(dst_));
  source.define("PIECE", piece_).define("CHUNK", chunk_);
  const auto over = [&](Launch& launch, int64_t pieces) {
    launch.scalar(cl_uint(pieces)).global({size_t(pieces)}).local({128});
  };
  over(kernel->add(source, "gather_backward_zeros").output(0), to_.outer * to_.size * (to_.inner / piece_));
  if (indices_ == 0) return kernel;
  NamedSlices slices;
  slices.count = indices_;
  slices.sizes = {cl_int(to_.size)};
  slices.steps = {1};
  slices.add_numbers(*kernel, 1, index_, sort_.first_number());
  const int64_t lists = sort_.add_lists(*kernel, device);
  struct {
    Divisor inner, chunks;
    cl_uint indices, size;
  } of{Divisor(to_.inner / piece_), Divisor(chunks()), cl_uint(indices_), cl_uint(to_.size)};
  const int64_t of_chunks = to_.outer * chunks() * (to_.inner / piece_);
  Launch& runs = kernel->add(source, "gather_backward_runs").input(0).workspace().output(0).workspace();
  over(runs.scalar(cl_ulong(lists)).scalar(cl_ulong(parts_from() / sizeof(float))).raw(&of, sizeof of), of_chunks);
  if (chunks() == 1) return kernel;
  Launch& joined = kernel->add(source, "gather_backward_joined").workspace().output(0).workspace();
  over(joined.scalar(cl_ulong(lists)).scalar(cl_ulong(parts_from() / sizeof(float))).raw(&of, sizeof of), of_chunks);
  return kernel;
}

void list_slices(const Op& op, OpenclDevice& device, CandidateList& out) {
  constexpr int64_t kMost = int64_t(1) << 31;
  const auto finish = [&](Candidate& candidate) {
    const Layout& layout = candidate.inputs[0].layout;
    if (layout.is_blocked()) return false;
    candidate.inputs[1] = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
    candidate.outputs[0] = op.out().with_layout(op.in(1).rank() == 1 ? layout : Layout::plain(op.out().rank()));
    const Runs runs(op, candidate.outputs[0].layout);
    if (!runs.possible() || !narrow(Addressing(candidate.inputs[0])) || !narrow(Addressing(candidate.outputs[0])) ||
        runs.workspace_bytes() / sizeof(float) >= size_t(kMost)) {
      out.refuse("opencl", concat(op.schema->name, ": grad has shape ", op.in(0).shape, " and the result ",
                                  op.out().shape, ", expected less than 2^31 elements, and 2^27 indices"));
      return false;
    }
    candidate.efficiency = device.capabilities().cpu ? 0.1 : 0.3;
    candidate.workspace_bytes = runs.workspace_bytes();
    candidate.prepare = [&device, runs] { return runs.prepare(device); };
    return true;
  };
  if (op.in(1).rank() == 1) return add_per_layout(op, "gather_backward_runs", out, finish);
  Candidate candidate = make_candidate(op, "gather_backward_runs");
  candidate.inputs[0] = op.in(0).with_layout(Layout::plain(op.in(0).rank()));
  if (finish(candidate)) out.add(std::move(candidate));
}

void list_elements(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Lookup to(op.out(), dim_of(op), Layout::plain(op.out().rank()));
  Candidate candidate = make_candidate(op, "gather_backward_elements");
  for (TensorDesc& input : candidate.inputs) input = input.with_layout(Layout::plain(input.rank()));
  candidate.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
  const Addressing dst(candidate.outputs[0]);
  if (!narrow(Addressing(candidate.inputs[0])) || !narrow(dst))
    return out.refuse("opencl", op.schema->name + ": needs indices of more than 31 bits");
  candidate.efficiency = 0.05;
  candidate.prepare = [&device, op, to, dst] {
    auto kernel = std::make_unique<KernelList>(device);
    KernelSource source("gather/gather_backward_elements.cl");
    source.define("GRAD_DTYPE", name_of(op.in(0).dtype)).define("INDEX_DTYPE", name_of(op.in(1).dtype));
    source.define("DST_DTYPE", name_of(op.out().dtype));
    Launch& launch = kernel->add(source, "gather_backward_elements");
    launch.input(0).input(1).output(0).index(op.in(0).shape[dim_of(op)]);
    over_places(launch.index(to.size).index(to.inner), dst);
    return kernel;
  };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("gather_backward", list_slices);
PL_OPENCL_OP("gather_elements_backward", list_elements);

}  // namespace
}  // namespace pl::opencl
