#include "providers/opencl/movement/resize_twice.h"

#include <algorithm>

#include "core/dtype.h"
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {
namespace {

const Family& nearest_family() {
  static const Family family("nearest_twice", {{"TILE_H", {1, 2, 4}}, {"COPIES", {1, 2}}});
  return family;
}
PL_TUNING_FAMILY(nearest_family);

const Family& linear_family() {
  static const Family family("linear_twice", {{"TILE_H", {1, 2, 4}}, {"TILE_W", {1, 2, 4}}});
  return family;
}
PL_TUNING_FAMILY(linear_family);

// A source as the kernels see it: `outer` images of (in_h, in_w, run).
struct Source {
  DType dtype;
  bool columns;  // channels first
  int64_t outer, in_h, in_w, run;
};

int64_t tiles_of(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

// What both kernels take behind their tensors.
void pass(Launch& launch, const Source& s, int64_t run, int64_t pieces, int64_t columns, int64_t tile_h) {
  const int64_t tiles = tiles_of(s.in_h, tile_h), all = pieces * columns * tiles * s.outer;
  launch.scalar(cl_int(s.in_h)).scalar(cl_int(s.in_w)).scalar(cl_int(run));
  launch.scalar(Divisor(pieces)).scalar(Divisor(columns)).scalar(Divisor(tiles)).scalar(cl_int(all));
  launch.global({size_t(all)}).local({128});
}

std::unique_ptr<Kernel> prepare_nearest(OpenclDevice& device, const Source& s, const Point& tile) {
  KernelSource source("resize/nearest_twice.cl");
  auto bytes = int64_t(size_of(s.dtype)), run = s.run;
  int64_t pieces, piece;
  if (s.columns) {
    piece = 2 * piece_of(s.in_w, 2 * bytes);
    pieces = s.in_w * 2 / piece;
  } else {
    for (; bytes < 4 && run % 2 == 0; bytes *= 2) run /= 2;  // words, which need not be taken apart
    piece = piece_of(run, bytes);
    pieces = run / piece;
  }
  source.define("BYTES", bytes).define("PIECE", piece).define("COLUMNS", s.columns ? 1 : 0);
  tile.define(source);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "nearest_twice").input(0).output(0);
  pass(launch, s, run, pieces, s.columns ? 2 / tile["COPIES"] : s.in_w, tile["TILE_H"]);
  return kernel;
}

std::unique_ptr<Kernel> prepare_linear(OpenclDevice& device, const Source& s, const Point& tile) {
  KernelSource source("resize/linear_twice.cl");
  const int64_t piece = s.columns ? 1 : piece_of(s.run, int64_t(size_of(s.dtype)));
  source.define("SRC_DTYPE", name_of(s.dtype)).define("DST_DTYPE", name_of(s.dtype));
  source.define("COLUMNS", s.columns ? 1 : 0).define("PIECE", piece);
  tile.define(source);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "linear_twice").input(0).output(0);
  pass(launch, s, s.run, s.run / piece, tiles_of(s.in_w, tile["TILE_W"]), tile["TILE_H"]);
  return kernel;
}

bool doubles(const Op& op) {
  const Dims &in = op.in(0).shape, &out = op.out().shape;
  if (in.size() != 4 || op.attributes[attr::align_corners]) return false;
  for (int axis = 0; axis < 2; ++axis)
    if (out[2 + axis] != 2 * in[2 + axis] || op.attributes[attr::scale_floats][size_t(axis)] != 0.5) return false;
  return true;
}

}  // namespace

void list_resize_twice(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (device.capabilities().cpu || x.elements() == 0 || !doubles(op)) return;
  const bool linear = op.attributes[attr::mode] == "linear";
  if (linear && !has_quads(x.dtype)) return;
  const auto bytes = int64_t(size_of(x.dtype));
  const ShapeClass shapes(x.dtype, "image", x.shape[0] * x.shape[2] * x.shape[3], x.shape[1], 1);
  for (const Layout& layout : layouts_to_try(op, x)) {
    Candidate base = make_candidate(op, "");
    base.inputs[0] = TensorDesc::dense(x.dtype, x.shape, layout);
    base.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, layout);
    Slabs src;
    if (!slabs_of(base.inputs[0], src) || !narrow(Addressing(base.outputs[0]))) continue;
    const Source source{x.dtype, layout == Layout::plain(4), src.outer, src.spatial[0], src.spatial[1], src.run};
    if (!linear) {
      const auto suits = [&](const Point& tile) {
        return source.in_h > tile["TILE_H"] / 2 && (source.columns || tile["COPIES"] == 2);
      };
      const Point start{{"TILE_H", 1}, {"COPIES", source.columns ? 1 : 2}};
      nearest_family().add(base, shapes, nearest_family().choices(device, shapes, start, suits, out.whole_space), out,
                           [&](Candidate& candidate, const Point& tile) {
                             candidate.efficiency = 0.7;
                             candidate.prepare = [&device, source, tile] {
                               return prepare_nearest(device, source, tile);
                             };
                             return true;
                           });
      continue;
    }
    // Channels first: results of up to 16 bytes a row, of whole accesses.
    const int64_t widest = source.columns ? std::min(4, piece_of(source.in_w, 2 * bytes)) : 2;
    const auto suits = [&](const Point& tile) {
      return source.in_h > tile["TILE_H"] / 2 && tile["TILE_W"] <= widest &&
             (source.columns ? source.in_w % tile["TILE_W"] == 0 : source.in_w > tile["TILE_W"] / 2) &&
             (source.columns || tile["TILE_H"] * tile["TILE_W"] <= 4);  // registers
    };
    const Point start{{"TILE_H", source.in_h > 1 ? 2 : 1}, {"TILE_W", source.columns ? int(widest) : 1}};
    linear_family().add(base, shapes, linear_family().choices(device, shapes, start, suits, out.whole_space), out,
                        [&](Candidate& candidate, const Point& tile) {
                          candidate.efficiency = 0.7;
                          candidate.prepare = [&device, source, tile] { return prepare_linear(device, source, tile); };
                          return true;
                        });
  }
}

}  // namespace pl::opencl
