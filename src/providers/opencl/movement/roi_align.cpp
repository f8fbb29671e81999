// roi_align and its gradient (kernels/roi_align/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

KernelSource roi_align_source(const char* file, const Op& op, const TensorDesc& images) {
  KernelSource source(file);
  source.define("RATIO", op.attributes[attr::sampling_ratio]);
  source.define("ALIGNED", op.attributes[attr::aligned] ? 1 : 0);
  return source.define("INDEX_DTYPE", name_of(images.dtype));
}

// The inputs from `first` on, boxes and images, plain.
void plain_boxes(const Op& op, size_t first, Candidate& candidate) {
  for (size_t i = first; i < first + 2; ++i)
    candidate.inputs[i] = op.in(int(i)).with_layout(Layout::plain(op.in(int(i)).rank()));
}

void list_roi_align(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "roi_align_direct", out, [&](Candidate& candidate) {
    plain_boxes(op, 1, candidate);
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, candidate] {
      const Addressing dst(candidate.outputs[0]);
      KernelSource source = roi_align_source("roi_align/roi_align_direct.cl", op, op.in(2));
      source.tensor("SRC", candidate.inputs[0]).tensor("DST", dst);
      source.define("LARGEST", op.attributes[attr::mode] == "max" ? 1 : 0);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "roi_align_direct").input(0, "SRC").input(1).input(2).output(0, "DST");
      over_places(launch.scalar(cl_float(op.attributes[attr::spatial_scale])), dst);
      return kernel;
    };
    return true;
  });
}

void list_roi_align_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.attributes[attr::mode] == "max")
    return out.refuse("opencl", "roi_align_backward: with mode max there is no kernel");
  add_per_layout(op, "roi_align_backward_direct", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(candidate.inputs[0].layout);
    plain_boxes(op, 2, candidate);
    candidate.efficiency = 0.02;
    candidate.prepare = [&device, op, candidate] {
      const Addressing dst(candidate.outputs[0]);
      KernelSource source = roi_align_source("roi_align/roi_align_backward_direct.cl", op, op.in(3));
      source.tensor("GRAD", candidate.inputs[0]).tensor("DST", dst);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "roi_align_backward_direct").input(0, "GRAD").input(2).input(3);
      over_places(launch.output(0, "DST").scalar(cl_float(op.attributes[attr::spatial_scale])), dst);
      return kernel;
    };
    return true;
  });
}

PL_OPENCL_OP("roi_align", list_roi_align);
PL_OPENCL_OP("roi_align_backward", list_roi_align_backward);

}  // namespace
}  // namespace pl::opencl
