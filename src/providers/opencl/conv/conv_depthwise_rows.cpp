// conv where each channel has a filter of its own, on CPUs (kernels/conv/conv_fwd_depthwise_rows.cl): channels in
// vectors, tiles of positions in registers.
#include <algorithm>
#include <cmath>

#include "providers/opencl/conv/conv_common.h"

namespace pl::opencl {
namespace {

const Family& conv_depthwise_rows_family() {
  static const Family family("conv_fwd_depthwise_rows",
                             {{"VECTOR", {4, 8, 16}}, {"TILE_H", {1, 2}}, {"TILE_W", {4, 7, 8}}});
  return family;
}
PL_TUNING_FAMILY(conv_depthwise_rows_family);

// As kernels/conv/conv_fwd_depthwise_rows.cl has it.
struct DepthwiseArgument {
  cl_int vectors, segments, tiles_h, tiles_w, units, chunk;
};

Point conv_depthwise_rows_point(int vector, int height, int width) {
  return {{"VECTOR", vector}, {"TILE_H", height}, {"TILE_W", width}};
}

// The widest vector of the device that channels lie side by side for; 0 if there is none.
int vector_of(const OpenclDevice& device, const ConvTensors& t) {
  const int64_t run = depthwise_run(t);
  if (!run) return 0;
  for (int vector = std::clamp(device.capabilities().native_vector_float, 4, 16); vector >= 4; vector /= 2)
    if (run % vector == 0) return vector;
  return 0;
}

// Sums that leave half of the registers to what is loaded.
int most_sums(const OpenclDevice& device) { return device.capabilities().native_vector_float >= 16 ? 16 : 8; }

bool suits_conv_depthwise_rows(const OpenclDevice& device, const ConvTensors& t, const Point& point) {
  const int height = point["TILE_H"], width = point["TILE_W"];
  if (point["VECTOR"] != vector_of(device, t) || height * width > most_sums(device)) return false;
  return height <= t.dst.dims[3] && (width == 4 || width / 2 < t.dst.dims[4]);
}

// The tile that takes the fewest cycles: two products are done in one, loads come from the second cache, and a tile has
// some cycles of its own.  The 3x3 of 144 channels at 56x56 took 73 us on a Zen 5 with tiles of 2 x 7, 88 with 1 x 8;
// the one of 96 channels, stride 2, at 112x112 83 with 2 x 4, 95 with 1 x 8.
Point conv_depthwise_rows_start(const OpenclDevice& device, const ConvTensors& t) {
  const WindowArgument& w = t.window;
  int best_height = 1, best_width = 4;
  double least = INFINITY;
  for (const int height : {1, 2})
    for (const int width : {4, 7, 8}) {
      if (height > t.dst.dims[3] || height * width > most_sums(device)) continue;
      // Intel's compiler runs out of registers: the 5x5 of 1152 channels at 7x7 takes 30 us with 1 x 7, 47 with 2 x 7.
      if (height > 1 && t.taps() > 9) continue;
      const double tiles = std::ceil(double(t.dst.dims[3]) / height) * std::ceil(double(t.dst.dims[4]) / width);
      const int rows = (height - 1) * w.stride[1] + (w.size[1] - 1) * w.dilation[1] + 1;
      const int columns = (width - 1) * w.stride[2] + (w.size[2] - 1) * w.dilation[2] + 1;
      const double products = double(height * width) * double(t.taps());
      const double cycles = tiles * (0.5 * products + 0.75 * rows * columns + height * width + 6);
      if (cycles >= least) continue;
      least = cycles;
      best_height = height;
      best_width = width;
    }
  return conv_depthwise_rows_point(vector_of(device, t), best_height, best_width);
}

// Units a work-item: a work-group costs up to a microsecond to start, so that it should take some; but of small ops
// each processor gets a few, for they may be slowed down by others.
DepthwiseArgument divide_conv_depthwise_rows(const OpenclDevice& device, const ConvTensors& t, const Point& point) {
  constexpr double kEnoughProducts = 1e6;  // some 20 us of a fast processor
  constexpr int64_t kGroups = 3;           // a processor
  constexpr int64_t kLeastVectors = 4;     // side by side in memory, as far as that goes
  const int64_t processors = std::max<int64_t>(1, device.capabilities().compute_units);
  const auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  const int64_t tiles_h = parts(t.dst.dims[3], point["TILE_H"]), tiles_w = parts(t.dst.dims[4], point["TILE_W"]);
  const int64_t vectors = t.dst.padded(1) / point["VECTOR"], run = depthwise_run(t) / point["VECTOR"];
  int64_t segments = parts(vectors, run);
  while (segments * tiles_h * t.batch() < processors * kGroups && parts(vectors, segments * 2) >= kLeastVectors)
    segments *= 2;
  const int64_t each = parts(vectors, segments);
  segments = parts(vectors, each);
  const int64_t units = t.batch() * segments * tiles_h;
  const double products =
      double(each * point["VECTOR"]) * point["TILE_H"] * double(tiles_w) * point["TILE_W"] * double(t.taps());
  const int64_t enough = std::max<int64_t>(1, int64_t(kEnoughProducts / products));
  const int64_t chunk = std::min(enough, parts(units, processors * kGroups));
  return {cl_int(each), cl_int(segments), cl_int(tiles_h), cl_int(tiles_w), cl_int(units), cl_int(chunk)};
}

std::unique_ptr<Kernel> prepare_conv_depthwise_rows(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                                    const Point& point) {
  KernelSource source("conv/conv_fwd_depthwise_rows.cl");
  t.define(source, op);
  source.define("STEP", t.src.strides[4]);
  source.define("KERNEL_H", t.window.size[1]).define("KERNEL_W", t.window.size[2]);
  source.define("STRIDE_H", t.window.stride[1]).define("STRIDE_W", t.window.stride[2]);
  source.define("DILATION_H", t.window.dilation[1]).define("DILATION_W", t.window.dilation[2]);
  source.define("SHORT_EPILOGUE", int64_t(short_epilogue(op)));
  point.define(source);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_depthwise_rows").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  const DepthwiseArgument argument = divide_conv_depthwise_rows(device, t, point);
  launch.scalar(t.window).scalar(argument);
  launch.global({size_t((argument.units + argument.chunk - 1) / argument.chunk)}).local({1});
  return kernel;
}

}  // namespace

bool depthwise_rows_suits(const OpenclDevice& device, const ConvTensors& t) {
  const WindowArgument& w = t.window;
  if (!vector_of(device, t) || t.src.dims[2] != 1 || t.dst.dims[2] != 1 || w.size[0] != 1) return false;
  if (!pads_channels_only(t.src) || !pads_channels_only(t.dst)) return false;
  // A tile's rows are unrolled.
  if (w.size[1] > 7 || w.size[2] > 7 || w.stride[1] > 4 || w.stride[2] > 4) return false;
  return (w.size[1] - 1) * w.dilation[1] <= 8 && (w.size[2] - 1) * w.dilation[2] <= 8;
}

void list_conv_depthwise_rows(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(1).shape[1] != 1 || op.attributes[attr::groups] == 1) return;
  for (Candidate& base : packed_candidates(op)) {
    const ConvTensors t(op, base);
    if (!depthwise_rows_suits(device, t)) continue;
    base.efficiency = 0.5;
    const ShapeClass shapes{t.src.dtype, "depthwise-channels", t.pixels(), t.out_channels(), t.taps()};
    const auto choices = conv_depthwise_rows_family().choices(
        device, shapes, conv_depthwise_rows_start(device, t),
        [&](const Point& point) { return suits_conv_depthwise_rows(device, t, point); }, out.whole_space);
    conv_depthwise_rows_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
      candidate.prepare = [&device, op, t, point] { return prepare_conv_depthwise_rows(device, op, t, point); };
      return true;
    });
  }
}

}  // namespace pl::opencl
