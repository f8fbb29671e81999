// conv of few terms a result, on GPUs (kernels/conv/conv_fwd_quad.cl): first layers, groups of few channels, 1x1 from
// few channels.  Tiles of matrix units would be mostly empty, or wait for copies longer than they multiply.
#include <algorithm>

#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"

namespace pl::opencl {
namespace {

constexpr int64_t kMostChannels = 32;    // of the input, of one group
constexpr int64_t kMostTerms = 320;      // of a sum
constexpr int64_t kMostRegisters = 136;  // floats in a work-item's arrays: some sums, pixels and weights
constexpr int kMostSpan = 40;            // columns of the source that a tile meets, unrolled
constexpr size_t kWorkGroup = 128;       // work-items
constexpr size_t kRowsOfWindows = 4;     // of tiles, at least, in a work-group

const Family& conv_quad_family() {
  static const Family family("conv_fwd_quad",
                             {{"TILE_H", {1, 2, 4}}, {"TILE_W", {1, 2, 4, 7, 8}}, {"QUADS", {1, 2, 4}}});
  return family;
}
PL_TUNING_FAMILY(conv_quad_family);

struct Tile {
  int height, width, quads;

  Tile(int height, int width, int quads) : height(height), width(width), quads(quads) {}
  explicit Tile(const Point& point) : Tile(point["TILE_H"], point["TILE_W"], point["QUADS"]) {}
  Point point() const { return {{"TILE_H", height}, {"TILE_W", width}, {"QUADS", quads}}; }
  int sums() const { return height * width * quads; }  // quads of them
};

// Those worth measuring somewhere; a shape takes the few that promise most.
const Tile kStarts[] = {{1, 2, 1}, {1, 4, 1}, {1, 7, 1}, {1, 8, 1}, {2, 2, 1}, {2, 4, 1},
                        {1, 2, 2}, {1, 4, 2}, {1, 7, 2}, {1, 8, 2}, {2, 2, 2}, {1, 4, 4}};
constexpr size_t kMostQuadTiles = 3;

bool is_pointwise(const ConvTensors& t) {
  return t.taps() == 1 && t.window.begin[1] == 0 && t.window.begin[2] == 0 && t.window.stride[1] == 1 &&
         t.window.stride[2] == 1 && t.src.dims[3] == t.dst.dims[3] && t.src.dims[4] == t.dst.dims[4];
}

// Channels of a pixel are read one by one.
bool has_singles(const ConvTensors& t) {
  const auto [dim, block] = t.src.unit();
  return t.channels_per_group() % 4 ? block % 4 != 0 || block == 0 : dim != 1;
}

// Of dense tensors, channels innermost: all positions in one row.
void flatten(Addressing& tensor) {
  tensor.dims[4] *= tensor.dims[3] * tensor.dims[0];
  tensor.dims[3] = tensor.dims[0] = 1;
}

// A 1x1 convolution without a border has no rows that end within a tile.
ConvTensors in_rows(ConvTensors t) {
  if (!is_pointwise(t) || t.src.unit().first != 1) return t;
  flatten(t.src);
  flatten(t.dst);
  if (t.epilogue.first >= 0) flatten(t.epilogue.first_at);
  if (t.epilogue.last >= 0) flatten(t.epilogue.last_at);
  return t;
}

// Columns of the source that a tile meets and needs.
int64_t columns_read(const ConvTensors& t, int width) {
  const WindowArgument& w = t.window;
  std::vector<bool> read(size_t((width - 1) * w.stride[2] + (w.size[2] - 1) * w.dilation[2] + 1));
  for (int x = 0; x < width; ++x)
    for (int k = 0; k < w.size[2]; ++k) read[size_t(x * w.stride[2] + k * w.dilation[2])] = true;
  return std::count(read.begin(), read.end(), true);
}

bool suits_conv_quad(const ConvTensors& t, const Tile& tile) {
  const WindowArgument& w = t.window;
  if (t.out_channels_per_group() % (4 * tile.quads) || tile.sums() > 16) return false;
  if ((tile.height > 1 && t.dst.dims[3] <= tile.height / 2) || (tile.width > 1 && t.dst.dims[4] <= tile.width / 2))
    return false;
  if (int64_t(tile.width - 1) * w.stride[2] + int64_t(w.size[2] - 1) * w.dilation[2] >= kMostSpan) return false;
  const int64_t pixels = tile.height * columns_read(t, tile.width);
  return 4 * (tile.sums() + pixels + 2 * tile.quads) <= kMostRegisters;
}

// How many times as long as its multiplications alone the op takes: loads, positions outside of tiles, idle units.
double slowness(const OpenclDevice& device, const ConvTensors& t, const Tile& tile) {
  // What a load of a quad takes, in multiplications of one number: four wide words of the first cache, conversions.
  constexpr double kLoad = 8;
  constexpr double kItemsOfUnit = 384;  // work-items that keep a compute unit busy
  const WindowArgument& w = t.window;
  const auto channels = double(t.channels_per_group());
  const double products = double(t.taps()) * channels * 4 * tile.sums();
  const double pixels = double(w.size[1]) * tile.height * double(columns_read(t, tile.width)) * channels;
  const double loads = pixels / (has_singles(t) ? 2 : 4) + double(t.taps()) * channels * tile.quads;
  const int64_t tiles = t.batch() * divided_up(t.dst.dims[3], tile.height) * divided_up(t.dst.dims[4], tile.width);
  const double useful = double(t.pixels()) / double(tiles * tile.height * tile.width);
  const double items = double(tiles * t.out_channels()) / (4 * tile.quads);
  const double busy = std::min(1.0, items / (kItemsOfUnit * double(device.capabilities().compute_units)));
  return (products + kLoad * loads) / products / useful / busy;
}

// Part of the device's rates that is reached.  Work beyond what memory hides counts: a GPU does about 14 operations of
// ordinary arithmetic in f32 while memory moves a byte (an H200 14, consumers' more), with matrix units many more.
double conv_quad_efficiency(const ConvTensors& t, double slowness, bool matrix_unit) {
  constexpr double kOfRates = 0.8, kBalance = 14;
  const int64_t results = t.dst.places(), terms = t.channels_per_group() * t.taps();
  const int64_t numbers =
      t.src.places() + t.wei.places() + results * (1 + (t.epilogue.first >= 0) + (t.epilogue.last >= 0));
  const double bytes = double(numbers) * double(size_of(t.src.dtype)), work = 2 * double(results * terms) / kBalance;
  const double roofline = matrix_unit ? bytes : std::max(bytes, work);
  return kOfRates * roofline / std::max(bytes, work * slowness);
}

std::unique_ptr<Kernel> prepare_conv_quad(OpenclDevice& device, const Op& op, const ConvTensors& t, const Tile& tile) {
  KernelSource source("conv/conv_fwd_quad.cl");
  t.define(source, op);
  source.define("IN_OF_GROUP", t.channels_per_group()).define("OUT_OF_GROUP", t.out_channels_per_group());
  source.define("OUT_CHANNELS", t.out_channels()).define("PIXEL", t.src.strides[4]);
  source.define("SINGLES", has_singles(t) ? 1 : 0);
  source.define("KERNEL_H", t.window.size[1]).define("KERNEL_W", t.window.size[2]);
  source.define("STRIDE_H", t.window.stride[1]).define("STRIDE_W", t.window.stride[2]);
  source.define("DILATION_H", t.window.dilation[1]).define("DILATION_W", t.window.dilation[2]);
  tile.point().define(source);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_quad").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window);
  const auto across = size_t(divided_up(t.dst.dims[4], tile.width) * (t.out_channels() / (4 * tile.quads)));
  const auto down = size_t(t.batch() * divided_up(t.dst.dims[3], tile.height));
  // Windows of neighbouring rows share rows of the source.
  size_t rows = t.window.size[1] > 1 ? kRowsOfWindows : 1;
  while (rows < kWorkGroup / 32 && kWorkGroup / rows / 2 >= across) rows *= 2;
  launch.global({across, down}).local({kWorkGroup / rows, rows});
  return kernel;
}

void add_tiles(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, CandidateList& out) {
  struct Start {
    Tile tile;
    double slowness;
  };
  std::vector<Start> starts;
  for (const Tile& tile : kStarts)
    if (suits_conv_quad(t, tile)) starts.push_back({tile, slowness(device, t, tile)});
  if (starts.empty()) {
    if (!suits_conv_quad(t, {1, 1, 1})) return;
    starts.push_back({{1, 1, 1}, slowness(device, t, {1, 1, 1})});
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [](const Start& a, const Start& b) { return a.slowness < b.slowness; });
  if (starts.size() > kMostQuadTiles) starts.resize(kMostQuadTiles, starts.front());
  const ShapeClass shapes = shape_class(t);
  std::vector<Point> points;
  for (const Start& start : starts) points.push_back(start.tile.point());
  const auto choices = conv_quad_family().choices(
      device, shapes, points, [&](const Point& point) { return suits_conv_quad(t, Tile(point)); }, out.whole_space);
  const bool matrix_unit = mma_refusal(device, op.in(0).dtype, op.math).empty();
  conv_quad_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
    const Tile tile(point);
    candidate.efficiency = conv_quad_efficiency(t, slowness(device, t, tile), matrix_unit);
    candidate.prepare = [&device, op, t, tile] { return prepare_conv_quad(device, op, t, tile); };
    return true;
  });
}

}  // namespace

void list_conv_quad(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  const int64_t groups = op.attributes[attr::groups], channels = op.in(1).shape[1];
  if (rank > 4 || !has_quads(op.in(0).dtype) || op.out().shape[1] / groups % 4) return;
  if (channels > kMostChannels || op.in(1).elements() / op.in(1).shape[0] > kMostTerms) return;
  if (channels % 4 && (groups > 1 || channels > 4)) return;
  std::vector<Layout> layouts{Layout::channels_last(rank)};
  if (groups == 1 && channels <= 4) {
    // Images as they come, and as the matrix units' kernel wants them.
    layouts.push_back(Layout::plain(rank));
    if (channels < 4) layouts.push_back(Layout::channels_blocked(rank, 16 / int(size_of(op.in(0).dtype))));
  }
  for (const Layout& layout : layouts) {
    Candidate base = make_candidate(op, "");
    base.inputs[0] = TensorDesc::dense(op.in(0).dtype, op.in(0).shape, layout);
    base.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, Layout::channels_last(rank));
    base.inputs[1] = op.in(1).with_layout(Layout::parse(rank == 4 ? "cdba" : "cba"));
    complete_conv(op, base);
    const ConvTensors t = in_rows(ConvTensors(op, base));
    add_tiles(op, device, base, t, out);
  }
}

}  // namespace pl::opencl
