// conv on GPUs: an implicit matrix product with tiles in local memory (kernels/conv/conv_fwd_local.cl).
#include "providers/opencl/addressing/register_tile.h"
#include "providers/opencl/conv/conv_common.h"

namespace pl::opencl {
namespace {

const Family& conv_local_family() {
  static const Family family("conv_fwd_local", RegisterTile::tunables());
  return family;
}
PL_TUNING_FAMILY(conv_local_family);

// Neighbouring positions, or else neighbouring channels, lie side by side in the output.
bool pixels_across(const ConvTensors& t) { return t.dst.unit().first != 1; }

RegisterTile conv_local_start(const OpenclDevice& device, const ConvTensors& t) {
  const int64_t pixels = t.pixels(), channels = t.out_channels_per_group();
  RegisterTile tile = pixels_across(t) ? register_tile(device, channels, pixels, t.groups)
                                       : register_tile(device, pixels, channels, t.groups);
  // Each step is of input channels at one kernel position: no more than there are.
  const int64_t depth = t.channels_per_group();
  tile.tile_k = depth <= 4 ? 4 : depth <= 8 ? 8 : 16;
  return tile;
}

std::unique_ptr<Kernel> prepare_conv_local(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                           const RegisterTile& tile) {
  KernelSource source("conv/conv_fwd_local.cl");
  t.define(source, op);
  tile.define(source);
  const bool across = pixels_across(t);
  source.define("PIXELS_ACROSS", across ? 1 : 0);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_local").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.out_channels_per_group()).index(t.pixels());
  const int64_t tile_pixels = across ? tile.columns() : tile.rows();
  const int64_t tile_channels = across ? tile.rows() : tile.columns();
  const auto groups = [](int64_t size, int64_t tile) { return size_t((size + tile - 1) / tile); };
  launch.global({groups(t.pixels(), tile_pixels) * size_t(tile.local_x),
                 groups(t.out_channels_per_group(), tile_channels) * size_t(tile.local_y), size_t(t.groups)});
  launch.local({size_t(tile.local_x), size_t(tile.local_y), 1});
  return kernel;
}

}  // namespace

void add_conv_local(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t,
                    CandidateList& out) {
  const RegisterTile start = conv_local_start(device, t);
  if (!start.fits(device) || !pads_channels_only(t.src) || !pads_channels_only(t.dst)) return;
  const bool across = pixels_across(t);
  const int64_t channels = t.out_channels_per_group();
  const int64_t rows = across ? channels : t.pixels(), columns = across ? t.pixels() : channels;
  const ShapeClass shapes = shape_class(t);
  const auto choices = conv_local_family().choices(
      device, shapes, start.point(),
      [&](const Point& point) { return RegisterTile(point).suits(device, rows, columns, t.channels_per_group()); },
      out.whole_space);
  conv_local_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
    const RegisterTile tile(point);
    candidate.efficiency = 0.5 * tile.used(device, rows, columns, t.groups);
    candidate.prepare = [&device, op, t, tile] { return prepare_conv_local(device, op, t, tile); };
    return true;
  });
}

void list_conv_local(const Op& op, OpenclDevice& device, CandidateList& out) {
  // One filter for each channel leaves a matrix product with a single row.
  if (op.attributes[attr::groups] > 1 && op.in(1).shape[1] == 1) return;
  for (const Candidate& base : packed_candidates(op)) add_conv_local(op, device, base, ConvTensors(op, base), out);
}

}  // namespace pl::opencl
