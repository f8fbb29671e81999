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

// Four channels of several positions a work-item (kernels/conv/conv_fwd_depthwise_quad.cl): tiles worth measuring.
struct QuadTile {
  int height, width;
};
constexpr QuadTile kQuadTiles[] = {{1, 2}, {2, 2}, {1, 4}};

bool suits_quads(const ConvTensors& t) {
  const WindowArgument& window = t.window;
  if (t.out_channels() != t.channels() || t.channels() % 4 || t.src.dims[2] != 1 || t.dst.dims[2] != 1) return false;
  if (window.size[0] != 1 || window.size[1] > 7 || window.size[2] > 7) return false;
  // A tile's rows stay in registers.
  return window.stride[1] <= 4 && window.stride[2] <= 4 && (window.size[2] - 1) * window.dilation[2] <= 8 &&
         (window.size[1] - 1) * window.dilation[1] <= 8;
}

std::unique_ptr<Kernel> prepare_quads(OpenclDevice& device, const Op& op, const ConvTensors& t, QuadTile tile) {
  KernelSource source("conv/conv_fwd_depthwise_quad.cl");
  t.define(source, op);
  source.define("KERNEL_H", t.window.size[1]).define("KERNEL_W", t.window.size[2]);
  source.define("STRIDE_H", t.window.stride[1]).define("STRIDE_W", t.window.stride[2]);
  source.define("DILATION_H", t.window.dilation[1]).define("DILATION_W", t.window.dilation[2]);
  source.define("TILE_H", tile.height).define("TILE_W", tile.width);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_depthwise_quad").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window);
  const auto tiles = [](int64_t size, int64_t tile) { return size_t((size + tile - 1) / tile); };
  const size_t quads = size_t(t.channels() / 4);
  // Groups of 128 with as few work-items as can be beyond the last channel.
  size_t across = 1;
  while (across < 32 && across < quads) across *= 2;
  while (across > 8 && quads % across) across /= 2;
  launch.global({quads, tiles(t.dst.dims[4], tile.width), size_t(t.batch()) * tiles(t.dst.dims[3], tile.height)});
  launch.local({across, 128 / across / (across < 32 ? 2 : 1), across < 32 ? size_t(2) : size_t(1)});
  return kernel;
}

}  // namespace

void list_conv_depthwise_quad(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  if (op.in(1).shape[1] != 1 || op.attributes.integer("groups") == 1 || rank > 4) return;
  Candidate base = make_candidate(op, "");
  base.inputs[0] = TensorDesc::dense(op.in(0).dtype, op.in(0).shape, Layout::channels_last(rank));
  base.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, Layout::channels_last(rank));
  base.inputs[1] = op.in(1).with_layout(Layout::parse(rank == 4 ? "cdba" : "cba"));
  complete_conv(op, base);
  const ConvTensors t(op, base);
  if (!suits_quads(t)) return;
  for (const QuadTile& tile : kQuadTiles) {
    Candidate candidate = base;
    candidate.implementation = concat("conv_fwd_depthwise_quad[", tile.height, "x", tile.width, "]");
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, op, t, tile] { return prepare_quads(device, op, t, tile); };
    out.add(std::move(candidate));
  }
}

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
