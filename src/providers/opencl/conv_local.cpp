// conv on GPUs: an implicit matrix product with tiles in local memory (kernels/conv/conv_fwd_local.cl).
#include "providers/opencl/conv_common.h"
#include "providers/opencl/register_tile.h"

namespace pl::opencl {
namespace {

struct Tile {
  bool pixels_across;
  RegisterTile shape;
};

Tile tile_of(const OpenclDevice& device, const ConvTensors& t) {
  Tile tile;
  tile.pixels_across = t.dst.unit().first != 1;
  const int64_t pixels = t.pixels(), channels = t.out_channels_per_group();
  tile.shape = tile.pixels_across ? register_tile(device, channels, pixels, t.groups)
                                  : register_tile(device, pixels, channels, t.groups);
  // Each step is of input channels at one kernel position: no more than there are.
  const int64_t depth = t.channels_per_group();
  tile.shape.tile_k = depth <= 4 ? 4 : depth <= 8 ? 8 : 16;
  return tile;
}

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const ConvTensors& t, const Tile& tile) {
  KernelSource source("conv/conv_fwd_local.cl");
  t.define(source, op);
  tile.shape.define(source);
  source.define("PIXELS_ACROSS", tile.pixels_across ? 1 : 0);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_local").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.out_channels_per_group()).index(t.pixels());
  const int64_t tile_pixels = tile.pixels_across ? tile.shape.columns() : tile.shape.rows();
  const int64_t tile_channels = tile.pixels_across ? tile.shape.rows() : tile.shape.columns();
  const auto groups = [](int64_t size, int64_t tile) { return size_t((size + tile - 1) / tile); };
  launch.global({groups(t.pixels(), tile_pixels) * size_t(tile.shape.local_x),
                 groups(t.out_channels_per_group(), tile_channels) * size_t(tile.shape.local_y), size_t(t.groups)});
  launch.local({size_t(tile.shape.local_x), size_t(tile.shape.local_y), 1});
  return kernel;
}

}  // namespace

void list_conv_local(const Op& op, OpenclDevice& device, CandidateList& out) {
  // One filter for each channel leaves a matrix product with a single row.
  if (op.attributes.integer("groups") > 1 && op.in(1).shape[1] == 1) return;
  add_per_layout(op, "conv_fwd_local", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(packed_weights(op.in(1).rank()));
    complete_conv(op, candidate);
    const ConvTensors t(op, candidate);
    const Tile tile = tile_of(device, t);
    if (!tile.shape.fits(device) || !pads_channels_only(t.src) || !pads_channels_only(t.dst)) return false;
    // Of a tile's channels some are none of the group's.
    const int64_t channels = t.out_channels_per_group(),
                  width = tile.pixels_across ? tile.shape.rows() : tile.shape.columns();
    candidate.efficiency = 0.5 * double(channels) / double((channels + width - 1) / width * width);
    candidate.prepare = [&device, op, t, tile] { return prepare(device, op, t, tile); };
    return true;
  });
}

}  // namespace pl::opencl
