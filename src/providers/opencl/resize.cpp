// resize: interpolate (kernels/resize/).
#include <array>

#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"
#include "providers/opencl/quads.h"
#include "providers/opencl/window.h"

namespace pl::opencl {
namespace {

// LINEAR, ALIGN_CORNERS and SPATIAL of the kernels, and the scale along (d, h, w).
std::array<cl_float, 3> define_positions(KernelSource& source, const Op& op) {
  const int spatial = op.in(0).rank() - 2;
  source.define("SPATIAL", spatial).define("LINEAR", op.attributes.text("mode") == "linear" ? 1 : 0);
  source.define("ALIGN_CORNERS", op.attributes.flag("align_corners") ? 1 : 0);
  std::array<cl_float, 3> scale{1, 1, 1};
  for (int axis = 0; axis < spatial; ++axis)
    scale[size_t(3 - spatial + axis)] = cl_float(op.attributes.numbers("scale")[size_t(axis)]);
  return scale;
}

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing src = with_three_spatial(candidate.inputs[0]), dst = with_three_spatial(candidate.outputs[0]);
  KernelSource source("resize/resize_direct.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  const std::array<cl_float, 3> scale = define_positions(source, op);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "resize_direct").input(0, "SRC").output(0, "DST");
  launch.scalar(scale[0]).scalar(scale[1]).scalar(scale[2]);
  over_places(launch, dst);
  return kernel;
}

// Vectors of channels that lie side by side, on CPUs.
void list_channels(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!device.capabilities().cpu || !has_quads(x.dtype) || !has_quads(op.out().dtype) || op.out().elements() == 0)
    return;
  add_per_layout(op, "resize_channels", out, [&](Candidate& candidate) {
    const TensorDesc &src = candidate.inputs[0], &dst = candidate.outputs[0];
    constexpr int64_t kNarrowLimit = (int64_t(1) << 31) - (1 << 20);
    if (src.has_padding() || dst.has_padding() || src.elements() >= kNarrowLimit || dst.elements() >= kNarrowLimit)
      return false;
    const auto [dim, block] = Addressing(src).unit();
    const bool last = src.layout == Layout::channels_last(x.rank());
    const int64_t run = last ? x.shape[1] : block;
    if (dim != 1 || !(last || src.layout == Layout::channels_blocked(x.rank(), int(block)))) return false;
    int vector = device.capabilities().native_vector_float >= 16 ? 16 : 8;
    while (vector > run) vector /= 2;
    if (vector < 4) return false;
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, op, src = with_three_spatial(src), dst = with_three_spatial(dst), run, vector] {
      KernelSource source("resize/resize_channels.cl");
      source.define("SRC_DTYPE", name_of(src.dtype)).define("DST_DTYPE", name_of(dst.dtype)).define("VECTOR", vector);
      struct {
        cl_int outer, run, in[3], out[3];
        cl_float scale[3];
      } argument{cl_int(src.dims[0] * src.dims[1] / run), cl_int(run), {}, {}, {}};
      const std::array<cl_float, 3> scale = define_positions(source, op);
      for (size_t axis = 0; axis < 3; ++axis) {
        argument.in[axis] = cl_int(src.dims[2 + axis]);
        argument.out[axis] = cl_int(dst.dims[2 + axis]);
        argument.scale[axis] = scale[axis];
      }
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "resize_channels").input(0).output(0).raw(&argument, sizeof argument);
      const std::vector<size_t> sizes{size_t(dst.dims[3]), size_t(dst.dims[2]), size_t(argument.outer)};
      launch.global(sizes).local(group_of_vectors(device, sizes));
      return kernel;
    };
    return true;
  });
}

void list_resize(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_channels(op, device, out);
  add_per_layout(op, "resize_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.2;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("resize", list_resize);

}  // namespace
}  // namespace pl::opencl
