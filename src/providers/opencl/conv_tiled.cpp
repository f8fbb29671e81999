// conv on CPUs: an implicit matrix product with register tiles (kernels/conv/conv_fwd_tiled.cl).
#include <algorithm>

#include "providers/opencl/conv_common.h"

namespace pl::opencl {
namespace {

struct Tile {
  int vector = 0;   // output channels in a vector; 0: no tile suits
  int vectors = 1;  // per work-item
  int pixels = 1;   // per work-item
};

int64_t greatest_power_of_two_in(int64_t value) { return value & -value; }

Tile tile_of(const OpenclDevice& device, const ConvTensors& t) {
  Tile tile;
  const int64_t native = std::clamp(device.capabilities().native_vector_float, 4, 16);
  const int64_t oc = t.out_channels_per_group();
  if (t.groups > 1) {
    tile.vector = int(std::min(native, greatest_power_of_two_in(oc)));
    tile.vectors = oc % (2 * tile.vector) == 0 ? 2 : 1;
  } else {
    tile.vector = int(native);
    while (tile.vector > 4 && tile.vector / 2 >= oc) tile.vector /= 2;
    tile.vectors = oc > tile.vector ? 2 : 1;
  }
  if (tile.vector < 2) return {};
  // Accumulators, a row of weights and a value fit the registers: 32 of AVX-512, 16 of AVX2.
  tile.pixels = native == 16 ? 12 : 6;
  if (tile.vectors == 1) tile.pixels = native == 16 ? 16 : 10;
  // Sizes must not ask for another build, but for the smallest ones.
  if (t.pixels() <= 4) tile.pixels = t.pixels() == 1 ? 1 : 4;
  return tile;
}

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const ConvTensors& t, const Tile& tile) {
  KernelSource source("conv/conv_fwd_tiled.cl");
  t.define(source, op);
  source.define("VECTOR", tile.vector).define("TILE_VECTORS", tile.vectors).define("TILE_PIXELS", tile.pixels);
  const int64_t channels = int64_t(tile.vector) * tile.vectors;
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_tiled").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.out_channels_per_group()).index(t.pixels());
  launch.global(
      {size_t((t.pixels() + tile.pixels - 1) / tile.pixels), size_t((t.out_channels() + channels - 1) / channels)});
  launch.local({1, 1});
  return kernel;
}

}  // namespace

void list_conv_tiled(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "conv_fwd_tiled", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(packed_weights(op.in(1).rank()));
    complete_conv(op, candidate);
    const ConvTensors t(op, candidate);
    const Tile tile = tile_of(device, t);
    if (tile.vector == 0 || !pads_channels_only(t.src) || !pads_channels_only(t.dst)) return false;
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, op, t, tile] { return prepare(device, op, t, tile); };
    return true;
  });
}

}  // namespace pl::opencl
