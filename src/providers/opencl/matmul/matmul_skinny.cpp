// Products of few rows (kernels/matmul/matmul_skinny.cl): linear, and 1x1 conv of so few positions.
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/conv/conv_common.h"

namespace pl::opencl {
namespace {

constexpr int64_t kMostRows = 64;
constexpr int64_t kWorkItems = 128;  // of a group

struct SkinnyTile {
  int64_t rows, columns;
};
// The smaller ones for what has few results, the larger read each factor less often.
constexpr SkinnyTile kSkinnyTiles[] = {{1, 2}, {1, 1}, {2, 2}, {2, 1}, {4, 2}, {8, 4}};

// Of so many rows: half of it would be empty, or another one reads factors less often.
bool has_rows_for(const SkinnyTile& tile, int64_t rows) {
  if (tile.rows < 4) return tile.rows == rows;
  return tile.rows == 4 ? rows > 2 : rows > 4;
}

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

std::unique_ptr<Kernel> prepare_matmul_skinny(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                              const SkinnyTile& tile, int64_t vector, int64_t lanes) {
  KernelSource source("matmul/matmul_skinny.cl");
  t.define(source, op);
  const int64_t tiles = kWorkItems / lanes, rows = t.pixels(), columns = t.out_channels();
  source.define("TILE_M", tile.rows).define("TILE_N", tile.columns).define("VECTOR", vector);
  source.define("LANES", lanes).define("TILES", tiles);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "matmul_skinny").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.index(rows).index(columns).index(t.channels());
  launch.global({size_t(lanes), size_t(divided_up(columns, tile.columns)), size_t(divided_up(rows, tile.rows))});
  launch.local({size_t(lanes), size_t(tiles), 1});
  return kernel;
}

}  // namespace

void add_skinny(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, CandidateList& out) {
  const int64_t terms = t.channels(), vector = size_of(t.src.dtype) == 2 && terms % 8 == 0 ? 8 : 4;
  const int64_t pieces = terms / vector;
  if (t.pixels() > kMostRows || terms % 4 || pieces == 0 || !has_quads(t.src.dtype)) return;
  if (device.capabilities().max_work_group < size_t(kWorkItems)) return;
  const int64_t wanted = 256 * int64_t(device.capabilities().compute_units);  // work-items
  for (const SkinnyTile& tile : kSkinnyTiles) {
    if (!has_rows_for(tile, t.pixels())) continue;
    // A few pieces for each: fewer and their sums take longer than they do, more and too few loads are on their way.
    const int64_t tiles = divided_up(t.out_channels(), tile.columns) * divided_up(t.pixels(), tile.rows);
    int64_t lanes = 8;
    while (lanes < 64 && pieces > 4 * lanes) lanes *= 2;
    while (lanes < kWorkItems && pieces > 2 * lanes && tiles * lanes < wanted) lanes *= 2;
    Candidate candidate = base;
    candidate.implementation = concat("matmul_skinny[", tile.rows, "x", tile.columns, ",lanes=", lanes, "]");
    candidate.efficiency = device.capabilities().cpu ? 0.05 : tile.rows < 4 ? 0.75 : 0.5;
    candidate.prepare = [&device, op, t, tile, vector, lanes] {
      return prepare_matmul_skinny(device, op, t, tile, vector, lanes);
    };
    out.add(std::move(candidate));
  }
}

// Convolutions whose kernel is the whole image, so that the result has one position: channels last, both lie as rows of
// a product.
bool takes_whole_images(const Op& op, const ConvTensors& t) {
  for (int axis = 0; axis < 3; ++axis)
    if (t.window.begin[axis] != 0 || t.src.dims[size_t(2 + axis)] != t.wei.dims[size_t(2 + axis)] ||
        t.dst.dims[size_t(2 + axis)] != 1)
      return false;
  return op.in(0).shape[1] == t.channels();
}

void list_conv_skinny(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  if (op.attributes[attr::groups] != 1) return;
  Candidate base = make_candidate(op, "");
  const Layout layout = Layout::channels_last(rank);
  base.inputs[0] = TensorDesc::dense(op.in(0).dtype, op.in(0).shape, layout);
  base.inputs[1] = op.in(1).with_layout(layout);
  base.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, layout);
  complete_conv(op, base);
  ConvTensors t(op, base);
  if (t.out_channels() == 0) return;
  if (t.taps() != 1) {
    if (!takes_whole_images(op, t)) return;
    for (Addressing* a : {&t.src, &t.wei}) {
      a->dims[1] *= t.taps() > 0 ? a->dims[2] * a->dims[3] * a->dims[4] : 0;
      for (size_t d = 2; d < 5; ++d) a->dims[d] = 1;
    }
    return add_skinny(op, device, base, t, out);
  }
  for (int axis = 0; axis < 3; ++axis)  // position by position, or only one
    if (t.window.begin[axis] != 0 || t.src.dims[size_t(2 + axis)] != t.dst.dims[size_t(2 + axis)] ||
        (t.window.stride[axis] != 1 && t.dst.dims[size_t(2 + axis)] != 1))
      return;
  add_skinny(op, device, base, t, out);
}

}  // namespace pl::opencl
