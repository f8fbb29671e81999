// conv on CPUs: an implicit matrix product with register tiles (kernels/conv/conv_fwd_tiled.cl).
#include <algorithm>
#include <optional>

#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {
namespace {

// Registers of the vector unit: 32 of AVX-512 (and of most that have vectors of 16), else 16.
int conv_tiled_registers(const OpenclDevice& device) {
  return device.capabilities().native_vector_float >= 16 ? 32 : 16;
}

const Family& conv_tiled_family() {
  static const Family family(
      "conv_fwd_tiled",
      {{"VECTOR", {2, 4, 8, 16}}, {"TILE_VECTORS", {1, 2, 4}}, {"TILE_PIXELS", {1, 2, 4, 6, 8, 10, 12, 14, 16}}});
  return family;
}
PL_TUNING_FAMILY(conv_tiled_family);

Point conv_tiled_point(int vector, int vectors, int pixels) {
  return {{"VECTOR", vector}, {"TILE_VECTORS", vectors}, {"TILE_PIXELS", pixels}};
}

int64_t greatest_power_of_two_in(int64_t value) { return value & -value; }

// The one to start from; nothing where vectors do not suit.
std::optional<Point> conv_tiled_start(const OpenclDevice& device, const ConvTensors& t) {
  const int64_t native = std::clamp(device.capabilities().native_vector_float, 4, 16);
  const int64_t oc = t.out_channels_per_group();
  int vector, vectors;
  if (t.groups > 1) {
    vector = int(std::min(native, greatest_power_of_two_in(oc)));
    vectors = oc % (2 * vector) == 0 ? 2 : 1;
  } else {
    vector = int(native);
    while (vector > 4 && vector / 2 >= oc) vector /= 2;
    vectors = oc > vector ? 2 : 1;
  }
  if (vector < 2) return std::nullopt;
  // Accumulators, a row of weights and a value fit the registers.
  int pixels = conv_tiled_registers(device) == 32 ? 12 : 6;
  if (vectors == 1) pixels = conv_tiled_registers(device) == 32 ? 16 : 10;
  // Sizes must not ask for another build, but for the smallest ones.
  if (t.pixels() <= 4) pixels = t.pixels() == 1 ? 1 : 4;
  return conv_tiled_point(vector, vectors, pixels);
}

bool suits_conv_tiled(const OpenclDevice& device, const ConvTensors& t, const Point& point) {
  const int vector = point["VECTOR"], vectors = point["TILE_VECTORS"], pixels = point["TILE_PIXELS"];
  const int native = std::clamp(device.capabilities().native_vector_float, 4, 16);
  const int64_t channels = int64_t(vector) * vectors, oc = t.out_channels_per_group();
  if (t.groups > 1 && oc % channels) return false;
  if (vector > native || (t.groups == 1 && vector < std::min(native, 4))) return false;
  if (vectors > 1 && oc <= channels / 2) return false;  // more than half would be empty
  if (pixels > 1 && t.pixels() <= pixels / 2) return false;
  // Sums that fill half of the registers at least, where there are enough positions.
  const int64_t sums = int64_t(vectors) * pixels,
                least = std::min<int64_t>(conv_tiled_registers(device) / 2, t.pixels());
  return sums + vectors + 1 <= conv_tiled_registers(device) && sums >= least;
}

std::unique_ptr<Kernel> prepare_conv_tiled(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                           const Point& point) {
  KernelSource source("conv/conv_fwd_tiled.cl");
  t.define(source, op);
  point.define(source);
  const int64_t pixels = point["TILE_PIXELS"], channels = int64_t(point["VECTOR"]) * point["TILE_VECTORS"];
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_tiled").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.out_channels_per_group()).index(t.pixels());
  launch.global({size_t((t.pixels() + pixels - 1) / pixels), size_t((t.out_channels() + channels - 1) / channels)});
  launch.local({1, 1});
  return kernel;
}

}  // namespace

void list_conv_tiled(const Op& op, OpenclDevice& device, CandidateList& out) {
  for (Candidate& base : packed_candidates(op)) {
    const ConvTensors t(op, base);
    const auto start = conv_tiled_start(device, t);
    if (!start || !pads_channels_only(t.src) || !pads_channels_only(t.dst)) continue;
    base.efficiency = 0.5;
    const ShapeClass shapes = shape_class(t);
    const auto choices = conv_tiled_family().choices(
        device, shapes, *start, [&](const Point& point) { return suits_conv_tiled(device, t, point); },
        out.whole_space);
    conv_tiled_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
      candidate.prepare = [&device, op, t, point] { return prepare_conv_tiled(device, op, t, point); };
      return true;
    });
  }
}

}  // namespace pl::opencl
