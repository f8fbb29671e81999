// conv where each channel has filters of its own (kernels/conv/conv_fwd_depthwise.cl).
#include <algorithm>
#include <vector>

#include "providers/opencl/conv/conv_common.h"

namespace pl::opencl {

int64_t depthwise_run(const ConvTensors& t) {
  // Vectors may run along channels: the tensors lie alike, and each channel has one filter.
  const auto [dim, block] = t.dst.unit();
  if (dim != 1 || t.out_channels() != t.channels() || t.src.unit() != t.dst.unit()) return 0;
  return block ? block : t.out_channels();
}

namespace {

const Family& conv_depthwise_family() {
  static const Family family("conv_fwd_depthwise",
                             {{"LANES", {1, 4}}, {"VECTOR", {1, 2, 4, 8, 16}}, {"TILE_W", {1, 2, 4, 8}}});
  return family;
}
PL_TUNING_FAMILY(conv_depthwise_family);

Point conv_depthwise_point(int lanes, int vector, int width) {
  return {{"LANES", lanes}, {"VECTOR", vector}, {"TILE_W", width}};
}

Point conv_depthwise_start(const OpenclDevice& device, const ConvTensors& t) {
  const Capabilities& can = device.capabilities();
  int vector = 1;
  if (depthwise_run(t)) {
    // Neighbouring work-items of a GPU read neighbouring channels; a CPU's read vectors of them.
    if (can.cpu)
      while (vector < can.native_vector_float && vector < 16 && depthwise_run(t) % (2 * vector) == 0) vector *= 2;
    return conv_depthwise_point(1, vector, 4);
  }
  if (can.cpu)
    while (vector < can.native_vector_float && vector < 16 && vector * 2 <= t.dst.dims[4] &&
           (vector < 8 || t.dst.dims[4] % 16 == 0))
      vector *= 2;
  return conv_depthwise_point(4, vector, 1);
}

bool suits_conv_depthwise(const OpenclDevice& device, const ConvTensors& t, const Point& point) {
  const int vector = point["VECTOR"], width = point["TILE_W"];
  if ((point["LANES"] == 1) != (depthwise_run(t) > 0)) return false;
  if (vector > std::max(4, device.capabilities().native_vector_float)) return false;
  if (point["LANES"] == 1) return depthwise_run(t) % vector == 0 && (width == 1 || t.dst.dims[4] > width / 2);
  return vector * width == 1 || t.dst.dims[4] > int64_t(vector) * width / 2;
}

ShapeClass depthwise_class(const ConvTensors& t) {
  return {t.src.dtype, t.dst.unit().first == 1 ? "depthwise-channels" : "depthwise-columns", t.pixels(),
          t.out_channels(), t.taps()};
}

std::unique_ptr<Kernel> prepare_conv_depthwise(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                               const Point& tile) {
  KernelSource source("conv/conv_fwd_depthwise.cl");
  t.define(source, op);
  tile.define(source);
  const int vector = tile["VECTOR"], width = tile["TILE_W"];
  source.define("UNIT_STRIDE", t.window.stride[2] == 1 ? 1 : 0);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_depthwise").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.out_channels() / t.channels());
  const auto tiles = [](int64_t size, int64_t tile) { return size_t((size + tile - 1) / tile); };
  const int64_t channels = t.dst.padded(1), batch = t.dst.dims[0], rows = t.dst.dims[2] * t.dst.dims[3];
  const bool cpu = device.capabilities().cpu;
  if (tile["LANES"] == 1) {
    launch.global({tiles(channels, vector), tiles(t.dst.dims[4], width), size_t(batch * rows)});
  } else {
    launch.global({tiles(t.dst.dims[4], width * vector), size_t(rows), size_t(batch * channels)});
  }
  // On CPUs a work-group is a row or a few: a work-item is short against the cost of a group.
  if (tile["LANES"] == 1)
    launch.local(cpu ? std::vector<size_t>{1, 4, 1} : std::vector<size_t>{32, 4, 1});
  else
    launch.local(cpu ? std::vector<size_t>{1, 8, 1} : std::vector<size_t>{32, 4, 1});
  return kernel;
}

// The convolutions that the kernel of windows takes: channels in pairs, constants that fit into registers.
bool suits_windows(const ConvTensors& t) {
  const WindowArgument& window = t.window;
  if (t.out_channels() != t.channels() || t.channels() % 2 || t.src.dims[2] != 1 || t.dst.dims[2] != 1) return false;
  if (window.size[0] != 1 || window.size[1] > 7 || window.size[2] > 7) return false;
  return window.stride[1] <= 4 && window.stride[2] <= 4 && (window.size[2] - 1) * window.dilation[2] <= 8 &&
         (window.size[1] - 1) * window.dilation[1] <= 8;
}

// A tile of positions of two or four channels a work-item (kernels/conv/conv_fwd_depthwise_window.cl).
const Family& window_family() {
  static const Family family("conv_fwd_depthwise_window",
                             {{"VECTOR", {2, 4}}, {"TILE_H", {1, 2, 4}}, {"TILE_W", {1, 2, 4, 7, 8}}});
  return family;
}
PL_TUNING_FAMILY(window_family);

struct WindowTile {
  int vector, height, width;

  WindowTile(int vector, int height, int width) : vector(vector), height(height), width(width) {}
  explicit WindowTile(const Point& point) : WindowTile(point["VECTOR"], point["TILE_H"], point["TILE_W"]) {}
  Point point() const { return {{"VECTOR", vector}, {"TILE_H", height}, {"TILE_W", width}}; }
};
constexpr size_t kMostWindowStarts = 3;
constexpr size_t kWindowGroup = 128;  // work-items

// Columns and rows of the source that a tile reaches.
int64_t span(const WindowArgument& w, int axis, int tile) {
  return int64_t(tile - 1) * w.stride[axis] + int64_t(w.size[axis] - 1) * w.dilation[axis] + 1;
}

bool suits_window(const ConvTensors& t, const WindowTile& tile) {
  constexpr int64_t kMostRegisters = 208, kMostSpan = 32;  // of a work-item; bits that say which columns are inside
  const WindowArgument& w = t.window;
  if (t.channels() % tile.vector) return false;
  if ((tile.height > 1 && t.dst.dims[3] <= tile.height / 2) || (tile.width > 1 && t.dst.dims[4] <= tile.width / 2))
    return false;
  // Sums, a row of the source and the next one, and rows of weights that rows of sums still need.
  const int64_t columns = span(w, 2, tile.width), rows = std::min<int64_t>(tile.height, w.size[1]);
  const int64_t next = size_of(t.src.dtype) == 2 ? columns * tile.vector / 2 : columns * tile.vector;
  return columns <= kMostSpan && span(w, 1, tile.height) <= kMostSpan &&
         tile.vector * (tile.height * tile.width + columns + rows * w.size[2]) + next <= kMostRegisters;
}

int64_t window_tiles(const ConvTensors& t, const WindowTile& tile) {
  const auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  return t.batch() * parts(t.dst.dims[3], tile.height) * parts(t.dst.dims[4], tile.width);
}

// Instructions of all work-items, over how many of them the device can keep going.
double window_time(const OpenclDevice& device, const ConvTensors& t, const WindowTile& tile) {
  constexpr double kItemsOfUnit = 320;  // work-items that keep a compute unit busy: each has many sums
  // Of 15 shapes of 3x3 to 7x7 on an H200, in f16 and f32, this tile takes at most 4% more than each one's fastest.
  constexpr double kFastest = 0.6;
  const bool strided = t.window.stride[1] > 1 || t.window.stride[2] > 1;
  const bool fastest =
      tile.width == 4 && (strided ? tile.vector == 4 && tile.height == 2 : tile.vector == 2 && tile.height == 4);
  const WindowArgument& w = t.window;
  const double vector = tile.vector, each = size_of(t.src.dtype) == 2 ? 2 * vector : vector;  // with conversions
  const auto pieces = double(span(w, 1, tile.height) * span(w, 2, tile.width)), taps = double(t.taps());
  const double sums = tile.height * tile.width;
  const double instructions = vector * taps * sums + pieces * (3 + each) + taps * (1 + each) + sums * (8 + vector) + 60;
  const double items = double(window_tiles(t, tile)) * double(t.channels()) / vector;
  const double busy = std::min(1.0, items / (kItemsOfUnit * double(device.capabilities().compute_units)));
  return items * instructions / busy * (fastest ? kFastest : 1);
}

std::unique_ptr<Kernel> prepare_window(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                       const WindowTile& tile) {
  KernelSource source("conv/conv_fwd_depthwise_window.cl");
  t.define(source, op);
  source.specialise();
  source.define("KERNEL_H", t.window.size[1]).define("KERNEL_W", t.window.size[2]);
  source.define("STRIDE_H", t.window.stride[1]).define("STRIDE_W", t.window.stride[2]);
  source.define("DILATION_H", t.window.dilation[1]).define("DILATION_W", t.window.dilation[2]);
  tile.point().define(source);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_depthwise_window").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window);
  // As few work-items as can be beyond the last channel.
  const auto vectors = size_t(t.channels() / tile.vector);
  size_t across = 1;
  while (across < 32 && across < vectors) across *= 2;
  while (across > 8 && vectors % across) across /= 2;
  launch.global({vectors, size_t(window_tiles(t, tile))}).local({across, kWindowGroup / across});
  return kernel;
}

void list_windows(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, CandidateList& out) {
  std::vector<std::pair<double, WindowTile>> starts;
  for (const int vector : {2, 4})
    for (const int height : {1, 2, 4})
      for (const int width : {1, 2, 4, 7, 8}) {
        const WindowTile tile(vector, height, width);
        if (suits_window(t, tile)) starts.emplace_back(window_time(device, t, tile), tile);
      }
  if (starts.empty()) return;
  std::stable_sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Point> points;
  for (size_t i = 0; i < std::min(starts.size(), kMostWindowStarts); ++i) points.push_back(starts[i].second.point());
  const ShapeClass shapes = depthwise_class(t);
  const auto choices = window_family().choices(
      device, shapes, points, [&](const Point& point) { return suits_window(t, WindowTile(point)); }, out.whole_space);
  window_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
    const WindowTile tile(point);
    candidate.efficiency = 0.6 * starts.front().first / window_time(device, t, tile);
    candidate.prepare = [&device, op, t, tile] { return prepare_window(device, op, t, tile); };
    return true;
  });
}

}  // namespace

void list_conv_depthwise_window(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  if (op.in(1).shape[1] != 1 || op.attributes[attr::groups] == 1 || rank > 4) return;
  Candidate base = make_candidate(op, "");
  base.inputs[0] = TensorDesc::dense(op.in(0).dtype, op.in(0).shape, Layout::channels_last(rank));
  base.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, Layout::channels_last(rank));
  base.inputs[1] = op.in(1).with_layout(Layout::parse(rank == 4 ? "cdba" : "cba"));
  complete_conv(op, base);
  const ConvTensors t(op, base);
  if (suits_windows(t)) list_windows(op, device, base, t, out);
}

void list_conv_depthwise(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(1).shape[1] != 1 || op.attributes[attr::groups] == 1) return;
  CandidateList bases;
  add_per_layout(op, "", bases, [&](Candidate& candidate) {
    const bool channels_inside = candidate.outputs[0].layout != Layout::plain(op.out().rank());
    candidate.inputs[1] =
        op.in(1).with_layout(channels_inside ? packed_weights(op.in(1).rank()) : Layout::plain(op.in(1).rank()));
    complete_conv(op, candidate);
    return true;
  });
  for (const Candidate& base : bases.candidates) {
    const ConvTensors t(op, base);
    if (!pads_channels_only(t.src) || !pads_channels_only(t.dst)) continue;
    const ShapeClass shapes = depthwise_class(t);
    const auto choices = conv_depthwise_family().choices(
        device, shapes, conv_depthwise_start(device, t),
        [&](const Point& point) { return suits_conv_depthwise(device, t, point); }, out.whole_space);
    conv_depthwise_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
      // CPUs have a faster kernel for most.
      candidate.efficiency = device.capabilities().cpu && depthwise_rows_suits(device, t) ? 0.15 : 0.4;
      candidate.prepare = [&device, op, t, point] { return prepare_conv_depthwise(device, op, t, point); };
      return true;
    });
  }
}

}  // namespace pl::opencl
