// interleave: one launch for each result (kernels/interleave/).
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Candidate& candidate) {
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
    launch.index(first);
    over_places(launch, dst);
    first += dst.dims[1];
  }
  return kernel;
}

void list_interleave(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "interleave_direct", out, [&](Candidate& candidate) {
    const Layout layout = candidate.outputs[0].layout;
    for (size_t i = 0; i < candidate.inputs.size(); ++i) candidate.inputs[i] = op.in(int(i)).with_layout(layout);
    for (size_t k = 0; k < candidate.outputs.size(); ++k) candidate.outputs[k] = op.out(int(k)).with_layout(layout);
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, candidate] { return prepare(device, candidate); };
    return true;
  });
}

PL_OPENCL_OP("interleave", list_interleave);

}  // namespace
}  // namespace pl::opencl
