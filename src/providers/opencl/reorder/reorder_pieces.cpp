// reorder and cast of a plain tensor of few channels to one block of them (kernels/reorder/reorder_pieces.cl).
#include "providers/opencl/reorder/reorder_pieces.h"

#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {

void add_reorder_pieces(const Op& op, OpenclDevice& device, const TensorDesc& src, const TensorDesc& dst,
                        CandidateList& out) {
  if (src.rank() < 3 || !has_quads(src.dtype) || !has_quads(dst.dtype)) return;
  if (!dst.is_dense() || !src.is_dense() || src.layout != Layout::plain(src.rank()) || src.elements() == 0) return;
  int block = 0;
  for (int size : {4, 8})
    if (src.shape[1] <= size && dst.layout == Layout::channels_blocked(src.rank(), size)) block = size;
  if (!block) return;
  const int64_t channels = src.shape[1], all = src.elements() / channels, positions = all / src.shape[0];
  if (all * block >= int64_t(1) << 31) return;
  Candidate candidate = make_candidate(op, "reorder_pieces");
  candidate.inputs[0] = src;
  candidate.outputs[0] = dst;
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, channels, all, positions, block, from = src.dtype, to = dst.dtype] {
    KernelSource source("reorder/reorder_pieces.cl");
    source.define("SRC_DTYPE", name_of(from)).define("DST_DTYPE", name_of(to));
    source.define("BLOCK", block).define("CHANNELS", channels);
    auto kernel = std::make_unique<KernelList>(device);
    Launch& launch = kernel->add(source, "reorder_pieces").input(0).output(0);
    launch.index(positions).index(all).global({size_t(all)}).local({128});
    return kernel;
  };
  out.add(std::move(candidate));
}

}  // namespace pl::opencl
