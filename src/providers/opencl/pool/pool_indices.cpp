// pool_indices: where the maxima of pools lie (kernels/pool/pool_indices.cl).
#include "ops/pool_indices.h"

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/window.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

void list_pool_indices(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Op forward = forward_of_indices(op);
  const bool adaptive = forward.schema->kind == "adaptive_pool";
  if (!adaptive)
    if (const auto reason = window_refusal(forward)) return out.refuse("opencl", *reason);
  const WindowArgument window = adaptive ? WindowArgument() : window_argument(forward);
  add_per_layout(op, "pool_indices", out, [&](Candidate& candidate) {
    candidate.efficiency = device.capabilities().cpu ? 0.1 : 0.3;
    candidate.prepare = [&device, adaptive, window, candidate] {
      const Addressing dst = with_three_spatial(candidate.outputs[0]);
      KernelSource source("pool/pool_indices.cl");
      source.tensor("SRC", with_three_spatial(candidate.inputs[0])).tensor("DST", dst);
      source.define("ADAPTIVE", adaptive ? 1 : 0);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "pool_indices").input(0, "SRC").output(0, "DST").scalar(window);
      over_places(launch, dst);
      return kernel;
    };
    return true;
  });
}

PL_OPENCL_OP("pool_indices", list_pool_indices);

}  // namespace
}  // namespace pl::opencl
