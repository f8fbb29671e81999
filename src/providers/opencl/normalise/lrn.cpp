// lrn: local response normalisation (kernels/lrn/).
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_lrn(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing src(candidate.inputs[0]), dst(candidate.outputs[0]);
  const int64_t size = op.attributes[attr::size], channels = src.dims[1];
  KernelSource source("lrn/lrn_direct.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  source.define("SRC_CHANNEL(j)", offset_text("SRC", src.rank, [](int d) { return d == 1 ? "j" : own_index(d); }));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "lrn_direct").input(0, "SRC").output(0, "DST");
  launch.index(std::min(size / 2, channels))
      .index(std::min((size - 1) / 2, channels))
      .scalar(cl_float(op.attributes[attr::alpha] / double(size)))
      .scalar(cl_float(op.attributes[attr::beta]))
      .scalar(cl_float(op.attributes[attr::k_float]));
  over_places(launch, dst);
  return kernel;
}

void list_lrn(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "lrn_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, candidate] { return prepare_lrn(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("lrn", list_lrn);

}  // namespace
}  // namespace pl::opencl
