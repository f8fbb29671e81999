// pool_backward: the gradients of pools by their input (kernels/pool/pool_backward_pieces.cl, pool_backward_direct.cl).
#include "ops/pool_backward.h"

#include <algorithm>
#include <cstdint>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/window.h"
#include "providers/opencl/pool/pool_pieces.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

// A window_arg as an initializer in OpenCL C.
std::string initializer_of(const WindowArgument& window) {
  std::string text;
  for (const cl_int* list : {window.size, window.stride, window.dilation, window.begin})
    text += concat(text.empty() ? "{{" : ", {", list[0], ", ", list[1], ", ", list[2], "}");
  return text + "}";
}

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Op& forward, const Candidate& candidate) {
  const bool maximum = op.attributes[attr::mode] == "max", adaptive = forward.schema->kind == "adaptive_pool";
  const Addressing dst = with_three_spatial(candidate.outputs[0]);
  KernelSource source("pool/pool_backward_direct.cl");
  source.tensor("GRAD", with_three_spatial(candidate.inputs.back())).tensor("DST", dst);
  if (maximum) source.tensor("SRC", with_three_spatial(candidate.inputs[0]));
  source.define("POOL_MAX", maximum ? 1 : 0).define("ADAPTIVE", adaptive ? 1 : 0);
  source.define("COUNT_PAD", !maximum && !adaptive && op.attributes[attr::count_include_pad] ? 1 : 0);
  cl_int end[3] = {0, 0, 0};
  const int spatial = spatial_rank(op);
  for (int axis = 0; axis < spatial && !adaptive; ++axis)
    end[3 - spatial + axis] = cl_int(window_of(forward, axis).end);
  auto kernel = std::make_unique<KernelList>(device);
  source.define("WINDOW", initializer_of(adaptive ? WindowArgument() : window_argument(forward)));
  if (maximum) {
    Launch& places = kernel->add(source, "pool_backward_places").input(0, "SRC").input(1, "GRAD").workspace();
    over_places(places, with_three_spatial(candidate.inputs[1]));
  }
  Launch& launch = kernel->add(source, "pool_backward_direct");
  if (maximum) launch.workspace();
  launch.input(maximum ? 1 : 0, "GRAD").output(0, "DST");
  launch.scalar(end[0]).scalar(end[1]).scalar(end[2]);
  over_places(launch, dst);
  return kernel;
}

void list_pool_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Op forward = forward_of_pool(op);
  if (forward.schema->kind != "adaptive_pool")
    if (const auto reason = window_refusal(forward)) return out.refuse("opencl", *reason);
  const bool maximum = op.attributes[attr::mode] == "max";
  if (maximum && op.in(0).elements() / std::max<int64_t>(1, op.in(0).shape[0] * op.in(0).shape[1]) > INT32_MAX)
    return out.refuse("opencl", op.schema->name + ": places in an image need more than 31 bits");
  list_pool_backward_pieces(op, forward, device, out);
  add_per_layout(op, "pool_backward_direct", out, [&](Candidate& candidate) {
    const Layout& layout = candidate.inputs[0].layout;
    candidate.inputs.back() = candidate.inputs.back().with_layout(layout);
    if (maximum) candidate.workspace_bytes = size_t(Addressing(candidate.inputs[1]).places()) * sizeof(cl_int);
    candidate.efficiency = device.capabilities().cpu ? 0.1 : 0.3;
    candidate.prepare = [&device, op, forward, candidate] { return prepare(device, op, forward, candidate); };
    return true;
  });
}

PL_OPENCL_OP("pool_backward", list_pool_backward);

}  // namespace
}  // namespace pl::opencl
