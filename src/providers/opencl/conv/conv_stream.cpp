// conv and linear with constant weights on wgmma by persistent work-groups (kernels/conv/conv_fwd_stream.cl).
#include <algorithm>

#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/matrix_unit.h"
#include "providers/opencl/matrix_units/mma.h"

namespace pl::opencl {

int64_t most_stream_groups = INT64_MAX;

namespace {

constexpr int kChunks = 8;                    // of a step
constexpr int kCopiers = 128;                 // work-items that only copy
constexpr int64_t kStepBytes = kChunks * 16;  // of one row of factors
constexpr size_t kMostStreamStarts = 2;       // the estimates put the fastest of twelve products first

struct StreamTile {
  int rows, columns, stages;
  int warps() const { return rows / 16; }  // that multiply, one below the other
  Point point() const { return {{"TILE_M", rows}, {"TILE_N", columns}, {"STAGES", stages}}; }
};

// As many stages as the local memory of a unit has room for: with three in place of ten, tiles of 64 x 96 take twice as
// long (H200), as their steps are shorter than a copy's way.  Narrower tiles of 128 rows were never the fastest.
constexpr StreamTile kStreamTiles[] = {
    {64, 96, 10},  {64, 128, 8},  {64, 160, 7},  {64, 192, 6},  {128, 128, 6}, {128, 144, 6},
    {128, 160, 6}, {128, 192, 5}, {128, 208, 5}, {128, 224, 5}, {128, 256, 4},
};

const Family& conv_stream_family() {
  static const Family family(
      "conv_fwd_stream",
      {{"TILE_M", {64, 128}}, {"TILE_N", {96, 128, 144, 160, 192, 208, 224, 256}}, {"STAGES", {4, 5, 6, 7, 8, 10}}});
  return family;
}
PL_TUNING_FAMILY(conv_stream_family);

struct Product {
  int64_t rows, columns, steps;
  explicit Product(const ConvTensors& t)
      : rows(t.pixels()),
        columns(t.out_channels()),
        steps(t.taps() * divided_up(t.src.padded(1) * int64_t(size_of(t.src.dtype)), kStepBytes)) {}
  int64_t tiles(const StreamTile& tile) const {
    return divided_up(rows, tile.rows) * divided_up(columns, tile.columns);
  }
};

// Part of the units' rate that tiles reach; see wgmma_efficiency in mma.cpp, to which it is relative. Fitted to 25 times
// of eight products of 1024 rows on an H200, most within 6%, in microseconds without what lies between launches.
double conv_stream_efficiency(const Product& product, const StreamTile& tile, const OpenclDevice& device,
                              double* busy_ms = nullptr) {
  constexpr double kMost = 128 * 256;  // results of a tile
  constexpr double kStep = 0.62;       // of so many
  constexpr double kWait = 0.08;       // for a step
  constexpr double kCopy = 0.0012;     // a step's pieces of one row: what one unit takes from the second-level cache
  constexpr double kFinish = 3.2;      // so many results
  constexpr double kFirst = 2.6;       // until the first step is there, and for the last results
  constexpr double kReached = 0.7;     // as there, and kBlock
  constexpr double kBlock = 0.6;
  const auto units = int64_t(std::max(1, int(device.capabilities().compute_units)));
  const double part = double(tile.rows) * tile.columns / kMost;
  const double step = std::max(kStep * part + kWait, kCopy * (tile.rows + tile.columns));
  const double each = double(product.steps) * step + kFinish * part;
  const double busy = double(divided_up(product.tiles(tile), units)) * each + kFirst;
  if (busy_ms) *busy_ms = 1e-3 * busy;
  const double wanted = double(product.rows) * double(product.columns) / kMost;
  return kBlock * wanted * double(product.steps) / double(units) / busy / kReached;
}

// Whether positions of the source are those of the output and follow each other in memory.
bool rows_in_order(const ConvTensors& t) {
  if (!t.pointwise()) return false;
  int64_t follows = t.src.padded(1);
  for (size_t dim : {4, 3, 2, 0}) {
    if (t.src.dims[dim] != t.dst.dims[dim]) return false;
    if (t.src.dims[dim] > 1 && t.src.strides[dim] != follows) return false;
    follows *= t.src.dims[dim];
  }
  return true;
}

std::unique_ptr<Kernel> prepare_conv_stream(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                            const StreamTile& tile) {
  const Product product(t);
  KernelSource source("conv/conv_fwd_stream.cl");
  t.define(source, op);
  tile.point().define(source);
  source.define("WARPS_M", tile.warps()).define("WARPS_N", 1).define("CHUNKS", kChunks);
  source.define("PRODUCTS", 1).define("LAG", 1).define("MATRIX_DTYPE", name_of(t.src.dtype));
  source.define("NVIDIA_PTX", device.capabilities().nvidia ? 2 : 0);
  source.define("POINTWISE", t.pointwise() ? 1 : 0).define("DEPTH", t.deep() ? 1 : 0);
  source.define("ROWS_IN_ORDER", rows_in_order(t) ? 1 : 0);
  source.define("WHOLE_STEPS", t.src.padded(1) * int64_t(size_of(t.src.dtype)) % kStepBytes == 0 ? 1 : 0);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_stream").input(0, "SRC").input(1).output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.pixels());
  const auto items = size_t(tile.warps()) * 32 + kCopiers;
  const int64_t groups =
      std::min({product.tiles(tile), int64_t(device.capabilities().compute_units), most_stream_groups});
  launch.global({size_t(groups) * items}).local({items});
  return kernel;
}

Packing packing(OpenclDevice& device, const TensorDesc& desc, const ConvTensors& t) {
  const auto rows = cl_ulong(t.out_channels()), taps = cl_ulong(t.taps());
  const cl_ulong pieces = desc.size_bytes() / 16 / rows / taps, steps = taps * ((pieces + kChunks - 1) / kChunks);
  Packing packing;
  packing.input = 1;
  packing.form = "stream:" + desc.layout.generic_str();
  packing.bytes = size_t(steps * rows) * kStepBytes;
  packing.pack = packed_by([&device, rows, taps, pieces, places = size_t(steps * rows) * kChunks] {
    auto kernel = std::make_unique<KernelList>(device);
    kernel->add(KernelSource("conv/conv_fwd_stream_pack.cl"), "conv_fwd_stream_pack")
        .input(0)
        .output(0)
        .scalar(rows)
        .scalar(taps)
        .scalar(pieces)
        .global({places})
        .local({128});
    return kernel;
  });
  return packing;
}

}  // namespace

void add_conv_stream(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t,
                     CandidateList& out) {
  const int64_t piece = 16 / int64_t(size_of(t.src.dtype));
  if (op.schema->role_of(1) != Role::constant || size_of(t.src.dtype) != 2 || t.groups != 1 || t.stack != 1) return;
  if (t.src.padded(1) % piece || t.out_channels() % 4 || (t.src.block(1) > 1 && t.src.padded(1) == piece)) return;
  if (!has_wgmma(device) && !(wgmma_tiles_in_plain && !matrix_unit(device.capabilities()))) return;
  const Product product(t);
  std::vector<std::pair<double, StreamTile>> all;
  for (const StreamTile& tile : kStreamTiles) {
    if (product.columns <= tile.columns / 2) continue;  // more than half would be empty
    all.emplace_back(conv_stream_efficiency(product, tile, device), tile);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Point> starts;
  for (size_t i = 0; i < all.size() && i < std::max(kMostStreamStarts, most_mma_plans / 2); ++i)
    starts.push_back(all[i].second.point());
  const auto listed = [&](const Point& point) {
    return std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.second.point() == point; });
  };
  Candidate like = base;
  like.implementation = "conv_fwd_stream";
  like.packings = {packing(device, base.inputs[1], t)};
  const ShapeClass shapes = shape_class(t);
  const auto choices = conv_stream_family().choices(
      device, shapes, starts, [&](const Point& point) { return listed(point) != all.end(); }, out.whole_space);
  conv_stream_family().add(like, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
    const StreamTile tile = listed(point)->second;
    candidate.efficiency = conv_stream_efficiency(product, tile, device, &candidate.busy_ms);
    candidate.prepare = [&device, op, t, tile] { return prepare_conv_stream(device, op, t, tile); };
    return true;
  });
}

}  // namespace pl::opencl
