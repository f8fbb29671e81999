// conv where each channel has filters of its own (kernels/conv/conv_fwd_depthwise.cl).
#include <algorithm>

#include "providers/opencl/conv_common.h"

namespace pl::opencl {
namespace {

struct Tile {
  int lanes = 4;   // the dimension along vectors: 1 channels, 4 columns
  int vector = 1;  // elements
  int width = 1;   // columns or vectors of columns per work-item
};

Tile tile_of(const OpenclDevice& device, const ConvTensors& t) {
  Tile tile;
  const bool cpu = device.capabilities().cpu;
  const auto [dim, run] = t.dst.unit();
  if (dim == 1 && t.out_channels() == t.channels() && t.src.unit() == t.dst.unit()) {
    tile.lanes = 1;
    tile.width = 4;
    // Neighbouring work-items of a GPU read neighbouring channels; a CPU's read vectors of them.
    if (cpu) {
      const int64_t side_by_side = run ? run : t.out_channels();
      while (tile.vector < device.capabilities().native_vector_float && tile.vector < 16 &&
             side_by_side % (2 * tile.vector) == 0)
        tile.vector *= 2;
    }
    return tile;
  }
  if (cpu) {
    while (tile.vector < device.capabilities().native_vector_float && tile.vector < 16 &&
           tile.vector * 2 <= t.dst.dims[4] && (tile.vector < 8 || t.dst.dims[4] % 16 == 0))
      tile.vector *= 2;
  }
  return tile;
}

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const ConvTensors& t) {
  const Tile tile = tile_of(device, t);
  KernelSource source("conv/conv_fwd_depthwise.cl");
  t.define(source, op);
  source.define("LANES", tile.lanes).define("VECTOR", tile.vector).define("TILE_W", tile.width);
  source.define("UNIT_STRIDE", t.window.stride[2] == 1 ? 1 : 0);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_depthwise").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.out_channels() / t.channels());
  const auto tiles = [](int64_t size, int64_t tile) { return size_t((size + tile - 1) / tile); };
  const int64_t channels = t.dst.padded(1), batch = t.dst.dims[0], rows = t.dst.dims[2] * t.dst.dims[3];
  const bool cpu = device.capabilities().cpu;
  if (tile.lanes == 1) {
    launch.global({tiles(channels, tile.vector), tiles(t.dst.dims[4], tile.width), size_t(batch * rows)});
  } else {
    launch.global({tiles(t.dst.dims[4], tile.width * tile.vector), size_t(rows), size_t(batch * channels)});
  }
  // On CPUs a work-group is a row or a few: a work-item is short against the cost of a group.
  if (tile.lanes == 1)
    launch.local(cpu ? std::vector<size_t>{1, 4, 1} : std::vector<size_t>{32, 4, 1});
  else
    launch.local(cpu ? std::vector<size_t>{1, 8, 1} : std::vector<size_t>{32, 4, 1});
  return kernel;
}

}  // namespace

void list_conv_depthwise(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(1).shape[1] != 1 || op.attributes.integer("groups") == 1) return;
  add_per_layout(op, "conv_fwd_depthwise", out, [&](Candidate& candidate) {
    const bool channels_inside = candidate.outputs[0].layout != Layout::plain(op.out().rank());
    candidate.inputs[1] =
        op.in(1).with_layout(channels_inside ? packed_weights(op.in(1).rank()) : Layout::plain(op.in(1).rank()));
    complete_conv(op, candidate);
    const ConvTensors t(op, candidate);
    if (!pads_channels_only(t.src) || !pads_channels_only(t.dst)) return false;
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, op, t] { return prepare(device, op, t); };
    return true;
  });
}

}  // namespace pl::opencl
