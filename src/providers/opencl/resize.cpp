// resize: interpolate (kernels/resize/).
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"
#include "providers/opencl/window.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing src = with_three_spatial(candidate.inputs[0]), dst = with_three_spatial(candidate.outputs[0]);
  const int spatial = op.in(0).rank() - 2;
  KernelSource source("resize/resize_direct.cl");
  source.tensor("SRC", src).tensor("DST", dst).define("SPATIAL", spatial);
  source.define("LINEAR", op.attributes.text("mode") == "linear" ? 1 : 0);
  source.define("ALIGN_CORNERS", op.attributes.flag("align_corners") ? 1 : 0);
  cl_float scale[3] = {1, 1, 1};
  for (int axis = 0; axis < spatial; ++axis)
    scale[3 - spatial + axis] = cl_float(op.attributes.numbers("scale")[size_t(axis)]);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "resize_direct").input(0, "SRC").output(0, "DST");
  launch.scalar(scale[0]).scalar(scale[1]).scalar(scale[2]);
  over_places(launch, dst);
  return kernel;
}

void list_resize(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "resize_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.2;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("resize", list_resize);

}  // namespace
}  // namespace pl::opencl
