// resize and resize_backward: interpolate and its gradient (kernels/resize/).
#include <algorithm>
#include <array>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/window.h"
#include "providers/opencl/movement/resize_twice.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

// LINEAR, ALIGN_CORNERS and SPATIAL of the kernels, and the scale along (d, h, w).
std::array<cl_float, 3> define_positions(KernelSource& source, const Op& op) {
  const int spatial = op.in(0).rank() - 2;
  source.define("SPATIAL", spatial).define("LINEAR", op.attributes[attr::mode] == "linear" ? 1 : 0);
  source.define("ALIGN_CORNERS", op.attributes[attr::align_corners] ? 1 : 0);
  std::array<cl_float, 3> scale{1, 1, 1};
  for (int axis = 0; axis < spatial; ++axis)
    scale[size_t(3 - spatial + axis)] = cl_float(op.attributes[attr::scale_floats][size_t(axis)]);
  return scale;
}

std::unique_ptr<Kernel> prepare_resize(OpenclDevice& device, const Op& op, const Candidate& candidate) {
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

// (d, h, w) of resize_channels and resize_planes.
struct Positions {
  cl_int in[3], out[3];
  cl_float scale[3];
};

Positions resize_positions(KernelSource& source, const Op& op, const Addressing& src, const Addressing& dst) {
  source.define("SRC_DTYPE", name_of(src.dtype)).define("DST_DTYPE", name_of(dst.dtype));
  Positions made{};
  const std::array<cl_float, 3> scale = define_positions(source, op);
  for (size_t axis = 0; axis < 3; ++axis) {
    made.in[axis] = cl_int(src.dims[2 + axis]);
    made.out[axis] = cl_int(dst.dims[2 + axis]);
    made.scale[axis] = scale[axis];
  }
  return made;
}

// `run` channels side by side, by vectors.
std::unique_ptr<Kernel> prepare_channels(OpenclDevice& device, const Op& op, const Addressing& src,
                                         const Addressing& dst, int64_t run, int vector) {
  KernelSource source("resize/resize_channels.cl");
  source.define("VECTOR", vector);
  struct {
    cl_int outer, run;
    Positions positions;
  } argument{cl_int(src.dims[0] * src.dims[1] / run), cl_int(run), resize_positions(source, op, src, dst)};
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "resize_channels").input(0).output(0).raw(&argument, sizeof argument);
  const std::vector<size_t> sizes{size_t(dst.dims[3]), size_t(dst.dims[2]), size_t(argument.outer)};
  launch.global(sizes).local(group_of_vectors(device, sizes));
  return kernel;
}

std::unique_ptr<Kernel> prepare_planes(OpenclDevice& device, const Op& op, const Addressing& src,
                                       const Addressing& dst) {
  constexpr int64_t kTile = 64, kPlanes = 16;
  KernelSource source("resize/resize_planes.cl");
  source.define("TILE", kTile).define("PLANES", kPlanes);
  struct {
    cl_int outer;
    Positions positions;
  } argument{cl_int(src.dims[0] * src.dims[1]), resize_positions(source, op, src, dst)};
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "resize_planes").input(0).output(0).raw(&argument, sizeof argument);
  const std::vector<size_t> sizes{size_t((dst.dims[4] + kTile - 1) / kTile), size_t(dst.dims[2] * dst.dims[3]),
                                  size_t((argument.outer + kPlanes - 1) / kPlanes)};
  launch.global(sizes).local(group_of_vectors(device, sizes));
  return kernel;
}

// On CPUs: vectors of channels that lie side by side, or rows of planes.
void list_for_cpus(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!device.capabilities().cpu || !has_quads(x.dtype) || !has_quads(op.out().dtype) || op.out().elements() == 0)
    return;
  const auto suits = [](const TensorDesc& desc) { return !desc.has_padding() && desc.elements() < kNarrowLimit; };
  add_per_layout(op, "resize_channels", out, [&](Candidate& candidate) {
    const TensorDesc &src = candidate.inputs[0], &dst = candidate.outputs[0];
    if (!suits(src) || !suits(dst)) return false;
    const auto [dim, block] = Addressing(src).unit();
    const bool last = src.layout == Layout::channels_last(x.rank());
    const int64_t run = last ? x.shape[1] : block;
    if (dim != 1) return false;
    if (!last && src.layout.channel_block() == 0) return false;
    int vector = device.capabilities().native_vector_float >= 16 ? 16 : 8;
    while (vector > run) vector /= 2;
    if (vector < 4) return false;
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, op, src = with_three_spatial(src), dst = with_three_spatial(dst), run, vector] {
      return prepare_channels(device, op, src, dst, run, vector);
    };
    return true;
  });
  add_per_layout(op, "resize_planes", out, [&](Candidate& candidate) {
    const TensorDesc &src = candidate.inputs[0], &dst = candidate.outputs[0];
    if (!src.layout.is_plain() || !suits(src) || !suits(dst)) return false;
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, src = with_three_spatial(src), dst = with_three_spatial(dst)] {
      return prepare_planes(device, op, src, dst);
    };
    return true;
  });
}

constexpr int64_t kTileRows = 4;  // of the result, that a work-item of resize_pieces computes

// Pieces of channels or of columns, on GPUs.
void list_resize_pieces(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  const bool linear = op.attributes[attr::mode] == "linear";
  if (device.capabilities().cpu || x.rank() > 4 || x.elements() == 0 || op.out().elements() == 0) return;
  if (linear && !has_quads(x.dtype)) return;
  const int64_t bytes = int64_t(size_of(x.dtype));
  for (const Layout& layout : layouts_to_try(op, x)) {
    Candidate candidate = make_candidate(op, "resize_pieces");
    candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, layout);
    candidate.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, layout);
    Slabs src, dst;
    if (!slabs_of(candidate.inputs[0], src) || !slabs_of(candidate.outputs[0], dst)) continue;
    if (!narrow(Addressing(candidate.inputs[0])) || !narrow(Addressing(candidate.outputs[0]))) continue;
    if (src.spatial.size() == 1) {
      src.spatial.insert(src.spatial.begin(), 1);
      dst.spatial.insert(dst.spatial.begin(), 1);
    }
    const bool columns = layout == Layout::plain(x.rank());
    const int piece = piece_of(columns ? dst.spatial[1] : dst.run, bytes);
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, op, dtype = x.dtype, linear, bytes, src, dst, columns, piece] {
      const int64_t pieces = (columns ? dst.spatial[1] : dst.run) / piece, tall = std::min(kTileRows, dst.spatial[0]);
      const int64_t tiles = (dst.spatial[0] + tall - 1) / tall, across = columns ? 1 : dst.spatial[1];
      KernelSource source("resize/resize_pieces.cl");
      source.define("SRC_DTYPE", name_of(dtype)).define("DST_DTYPE", name_of(dtype)).define("PIECE", piece);
      source.define("LINEAR", linear ? 1 : 0).define("COLUMNS", columns ? 1 : 0).define("TILE_H", tall);
      source.define("ALIGN_CORNERS", op.attributes[attr::align_corners] ? 1 : 0);
      if (!linear) source.define("BYTES", bytes);
      const auto& scale = op.attributes[attr::scale_floats];
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "resize_pieces").input(0).output(0);
      launch.scalar(cl_float(scale.size() > 1 ? scale[0] : 1.0)).scalar(cl_float(scale.back()));
      for (int64_t size : {src.spatial[0], src.spatial[1], dst.spatial[0], dst.spatial[1], dst.run})
        launch.scalar(cl_int(size));
      const int64_t items = pieces * across * tiles * dst.outer;
      launch.scalar(Divisor(pieces)).scalar(Divisor(across)).scalar(Divisor(tiles)).scalar(cl_int(items));
      launch.global({size_t(items)}).local({128});
      return kernel;
    };
    out.add(std::move(candidate));
  }
}

void list_resize(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_resize_twice(op, device, out);
  list_resize_pieces(op, device, out);
  list_for_cpus(op, device, out);
  add_per_layout(op, "resize_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.2;
    candidate.prepare = [&device, op, candidate] { return prepare_resize(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("resize", list_resize);

// The gradient by the input: an output of interpolate's input sizes, each element of it sums what read it.
void list_resize_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "resize_backward_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.15;
    candidate.prepare = [&device, op, candidate] {
      const Addressing src = with_three_spatial(candidate.inputs[0]), dst = with_three_spatial(candidate.outputs[0]);
      KernelSource source("resize/resize_backward_direct.cl");
      source.tensor("SRC", src).tensor("DST", dst);
      const std::array<cl_float, 3> scale = define_positions(source, op);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "resize_backward_direct").input(0, "SRC").output(0, "DST");
      launch.scalar(scale[0]).scalar(scale[1]).scalar(scale[2]);
      over_places(launch, dst);
      return kernel;
    };
    return true;
  });
}
PL_OPENCL_OP("resize_backward", list_resize_backward);

}  // namespace
}  // namespace pl::opencl
