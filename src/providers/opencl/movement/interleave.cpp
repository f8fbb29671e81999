// interleave (kernels/interleave/): pieces of channels where they are innermost, one launch for both results; else one
// for each result, an element a work-item.
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_interleave(OpenclDevice& device, const Candidate& candidate, int64_t groups) {
  const Addressing x(candidate.inputs[0]), y(candidate.inputs[1]);
  const auto channel = [](int d) { return d == 1 ? "(j)" : own_index(d); };
  auto kernel = std::make_unique<KernelList>(device);
  int64_t first = 0;
  for (size_t k = 0; k < candidate.outputs.size(); ++k) {
    const Addressing dst(candidate.outputs[k]);
    if (dst.dims[1] == 0) continue;
    KernelSource source("interleave/interleave_direct.cl");
    source.tensor("SRC", x).tensor("SRC1", y).tensor("DST", dst);
    source.define("SRC_CHANNEL(j)", offset_text("SRC", x.rank, channel));
    source.define("SRC1_CHANNEL(j)", offset_text("SRC1", y.rank, channel));
    Launch& launch = kernel->add(source, "interleave_direct").input(0, "SRC").input(1, "SRC1").output(int(k), "DST");
    launch.index(first).index(x.dims[1]).index(groups).index(2 * x.dims[1] / groups);
    over_places(launch, dst);
    first += dst.dims[1];
  }
  return kernel;
}

// Channels of an access, which divide those of the sources and of each result, up to 16 bytes of them.
int piece_of_parts(const Op& op) {
  const auto bytes = int64_t(size_of(op.in(0).dtype));
  int piece = piece_of(op.in(0).shape[1], bytes);
  for (size_t k = 0; k < op.outputs.size(); ++k) piece = std::min(piece, piece_of(op.out(int(k)).shape[1], bytes));
  return piece;
}

// Two groups, or those that undo them.
bool undoes_turns(const Op& op) { return op.attributes[attr::groups] != 2; }

std::unique_ptr<Kernel> prepare_interleave_pieces(OpenclDevice& device, const Op& op) {
  constexpr size_t kGroup = 128;
  constexpr int64_t kBytes = 8;  // of each source that a work-item is to have on their way
  const int piece = piece_of_parts(op);
  const auto bytes = int64_t(size_of(op.in(0).dtype));
  const int64_t channels = op.in(0).shape[1], places = op.in(0).elements() / piece;
  const int64_t steps = std::max<int64_t>(1, std::min<int64_t>(4, kBytes / (piece * bytes)));
  KernelSource source("interleave/interleave_pieces.cl");
  source.define("BYTES", bytes).define("PIECE", piece).define("STEPS", steps);
  source.define("PARTS", int64_t(op.outputs.size())).define("BACK", int(undoes_turns(op)));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "interleave_pieces").input(0).input(1).output(0);
  if (op.outputs.size() == 2) launch.output(1);
  launch.scalar(cl_uint(op.out(0).shape[1])).scalar(cl_uint(op.outputs.size() == 2 ? op.out(1).shape[1] : 0));
  launch.scalar(Divisor(channels / piece)).scalar(cl_uint(places));
  launch.global({size_t((places + steps - 1) / steps)}).local({kGroup});
  return kernel;
}

// Results without channels are left to the other kernel.
void list_interleave_pieces(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.outputs.size() > 2 || op.in(0).elements() >= int64_t(1) << 29) return;
  if (undoes_turns(op) && op.attributes[attr::groups] != op.in(0).shape[1]) return;
  Candidate candidate = make_candidate(op, "interleave_pieces");
  const Layout layout = Layout::channels_last(op.in(0).rank());
  for (TensorDesc& desc : candidate.inputs) desc = TensorDesc::dense(desc.dtype, desc.shape, layout);
  for (TensorDesc& desc : candidate.outputs) {
    if (desc.shape[1] == 0) return;
    desc = TensorDesc::dense(desc.dtype, desc.shape, layout);
  }
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, op] { return prepare_interleave_pieces(device, op); };
  out.add(std::move(candidate));
}

void list_interleave(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_interleave_pieces(op, device, out);
  add_per_layout(op, "interleave_direct", out, [&](Candidate& candidate) {
    const Layout layout = candidate.outputs[0].layout;
    for (size_t i = 0; i < candidate.inputs.size(); ++i) candidate.inputs[i] = op.in(int(i)).with_layout(layout);
    for (size_t k = 0; k < candidate.outputs.size(); ++k) candidate.outputs[k] = op.out(int(k)).with_layout(layout);
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, candidate, groups = int64_t(op.attributes[attr::groups])] {
      return prepare_interleave(device, candidate, groups);
    };
    return true;
  });
}

PL_OPENCL_OP("interleave", list_interleave);

}  // namespace
}  // namespace pl::opencl
