// channel_shuffle (kernels/channel_shuffle/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_channel_shuffle(OpenclDevice& device, int64_t groups, const Candidate& candidate) {
  const Addressing src(candidate.inputs[0]), dst(candidate.outputs[0]);
  KernelSource source("channel_shuffle/channel_shuffle_direct.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  source.define("SRC_CHANNEL(j)", offset_text("SRC", src.rank, [](int d) { return d == 1 ? "(j)" : own_index(d); }));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "channel_shuffle_direct").input(0, "SRC").output(0, "DST");
  launch.index(groups).index(src.dims[1] / groups);
  over_places(launch, dst);
  return kernel;
}

void list_channel_shuffle(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int64_t groups = op.attributes[attr::groups];
  add_per_layout(op, "channel_shuffle_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, groups, candidate] { return prepare_channel_shuffle(device, groups, candidate); };
    return true;
  });
}

PL_OPENCL_OP("channel_shuffle", list_channel_shuffle);

}  // namespace
}  // namespace pl::opencl
