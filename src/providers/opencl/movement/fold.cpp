// fold (kernels/fold/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/window.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

struct FoldWindows {
  WindowArgument window;
  int64_t count[3] = {1, 1, 1};
};

std::unique_ptr<Kernel> prepare_fold(OpenclDevice& device, const FoldWindows& windows, const Candidate& candidate) {
  const Addressing src(candidate.inputs[0]), dst = with_three_spatial(candidate.outputs[0]);
  KernelSource source("fold/fold_direct.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "fold_direct").input(0, "SRC").output(0, "DST").scalar(windows.window);
  for (const int64_t count : windows.count) launch.index(count);
  over_places(launch, dst);
  return kernel;
}

void list_fold(const Op& op, OpenclDevice& device, CandidateList& out) {
  const auto attribute = [&](const Key<Ints>& key, size_t s) { return op.attributes[key][s]; };
  const size_t spatial = op.attributes[attr::windows].size();
  FoldWindows windows;
  for (size_t s = 0; s < spatial; ++s) {
    const int64_t padded =
        op.out().shape[2 + int(s)] + attribute(attr::padding, s) + attribute(attr::padding, s + spatial);
    if (padded >= int64_t(1) << 31) return out.refuse("opencl", "fold: positions of windows need more than 31 bits");
    const size_t axis = 3 - spatial + s;
    windows.window.size[axis] = cl_int(attribute(attr::kernel_size, s));
    windows.window.stride[axis] = cl_int(attribute(attr::stride, s));
    windows.window.dilation[axis] = cl_int(attribute(attr::dilation, s));
    windows.window.begin[axis] = cl_int(attribute(attr::padding, s));
    windows.count[axis] = attribute(attr::windows, s);
  }
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    Candidate candidate = make_candidate(op, "fold_direct");
    candidate.inputs[0] = op.in(0).with_layout(Layout::plain(3));
    candidate.outputs[0] = op.out().with_layout(layout);
    candidate.efficiency = 0.1;  // an element of a window at a time, by divisions
    candidate.prepare = [&device, windows, candidate] { return prepare_fold(device, windows, candidate); };
    out.add(std::move(candidate));
  }
}

PL_OPENCL_OP("fold", list_fold);

}  // namespace
}  // namespace pl::opencl
