// matmul and linear on CPUs: register tiles over panels of columns (kernels/matmul/matmul_tiled.cl).
#include <algorithm>

#include "providers/opencl/matmul/matmul_common.h"

namespace pl::opencl {
namespace {

constexpr int kRows = kStackDims, kColumns = kStackDims + 1;
constexpr int64_t kPanelWidth = 16;
// Fewer rows than this do not repay a copy of the other matrix, if its rows can be used as they are.
constexpr int64_t kRowsWorthPacking = 16;

int registers(const OpenclDevice& device) { return device.capabilities().native_vector_float >= 16 ? 32 : 16; }

const Family& matmul_tiled_family() {
  static const Family family(
      "matmul_tiled",
      {{"VECTOR", {4, 8, 16}}, {"TILE_VECTORS", {1, 2, 4}}, {"TILE_ROWS", {1, 2, 4, 6, 8, 10, 12, 14, 16}}});
  return family;
}
PL_TUNING_FAMILY(matmul_tiled_family);

Point point_of(int vector, int vectors, int rows) {
  return {{"VECTOR", vector}, {"TILE_VECTORS", vectors}, {"TILE_ROWS", rows}};
}

// The one to start from; vectors of at most `vector_limit` columns.
Point start_of(const OpenclDevice& device, const MatmulTensors& t, int64_t vector_limit) {
  const int64_t native = std::clamp(device.capabilities().native_vector_float, 4, 16);
  int vector = int(std::min(native, vector_limit));
  while (vector > 4 && vector / 2 >= t.columns()) vector /= 2;
  // Accumulators, a row of the panels and a value fit the registers.
  int vectors = t.columns() > vector ? 2 : 1;
  int rows = registers(device) == 32 ? 12 : 6;
  if (t.rows() <= 4) {
    rows = t.rows() == 1 ? 1 : 4;
    if (t.rows() == 1 && t.columns() > 2 * vector) vectors = 4;
  }
  return point_of(vector, vectors, rows);
}

bool suits(const OpenclDevice& device, const MatmulTensors& t, int64_t vector_limit, const Point& point) {
  const int vector = point["VECTOR"], vectors = point["TILE_VECTORS"], rows = point["TILE_ROWS"];
  if (vector > std::min<int64_t>(std::clamp(device.capabilities().native_vector_float, 4, 16), vector_limit))
    return false;
  if (vectors > 1 && t.columns() <= int64_t(vector) * vectors / 2) return false;  // more than half would be empty
  if (rows > 1 && t.rows() <= rows / 2) return false;
  // Sums that fill half of the registers at least, where there are enough rows.
  const int64_t sums = int64_t(vectors) * rows, least = std::min<int64_t>(registers(device) / 2, t.rows());
  return sums + vectors + 1 <= registers(device) && sums >= least;
}

// b as panels want it, (stack, n, k), where it is.
Addressing columns_first(const Addressing& b) {
  Addressing swapped = b;
  swap_dims(swapped, kRows, kColumns);
  return swapped;
}

// The panels that matmul_pack fills: (stack, n, k), dense.
Addressing panels_of(const Addressing& b) {
  Dims shape;
  for (int i = 0; i < kStackDims; ++i) shape.push_back(b.dims[size_t(i)]);
  shape.push_back(b.dims[kColumns]);
  shape.push_back(b.dims[kRows]);
  return Addressing(TensorDesc::dense(DType::f32, shape, Layout::parse("abcdefGh16g")));
}

void add_tiled_product(KernelList& kernel, const Op& op, const MatmulTensors& t, const Addressing& panels,
                       const Point& tile, bool packed) {
  KernelSource source("matmul/matmul_tiled.cl");
  source.tensor("A", t.a).tensor("PAN", panels).tensor("DST", t.dst);
  t.epilogue.define(source, op);
  tile.define(source);
  Launch& launch = kernel.add(source, "matmul_tiled").input(0, "A");
  packed ? launch.workspace("PAN") : launch.input(1, "PAN");
  launch.output(0, "DST");
  t.epilogue.pass(launch);
  const int64_t width = int64_t(tile["VECTOR"]) * tile["TILE_VECTORS"], rows = tile["TILE_ROWS"];
  launch.global({size_t((t.rows() + rows - 1) / rows), size_t((t.columns() + width - 1) / width), size_t(t.stack())});
  launch.local({1, 1, 1});
}

void add_packing(KernelList& kernel, const MatmulTensors& t, const Addressing& panels) {
  constexpr int64_t kTileK = 64;
  KernelSource source("matmul/matmul_pack.cl");
  source.tensor("B", t.b).tensor("PAN", panels).define("TILE_K", kTileK);
  int64_t stack = 1;
  for (int i = 0; i < kStackDims; ++i) stack *= t.b.dims[size_t(i)];
  kernel.add(source, "matmul_pack")
      .input(1, "B")
      .workspace("PAN")
      .global({size_t((t.depth() + kTileK - 1) / kTileK), size_t((t.columns() + kPanelWidth - 1) / kPanelWidth),
               size_t(stack)})
      .local({1, 1, 1});
}

}  // namespace

void add_matmul_tiled(const Op& op, OpenclDevice& device, const Candidate& base, const MatmulTensors& t,
                      bool b_is_panels, CandidateList& out) {
  if (!t.dst.inner.empty()) return;
  const Addressing rows = columns_first(t.b);
  // The widest vectors that no row leaves a part of.
  const int64_t widest = std::min(kPanelWidth, t.columns() & -t.columns());
  const bool rows_usable = t.b.inner.empty() && t.b.strides[kColumns] == 1 && widest >= 4;
  const bool as_it_is = b_is_panels || (rows_usable && t.rows() < kRowsWorthPacking);
  const int64_t limit = b_is_panels || !as_it_is ? kPanelWidth : widest;
  const ShapeClass shapes = shape_class(t);
  const auto choices = matmul_tiled_family().choices(
      device, shapes, start_of(device, t, limit), [&](const Point& point) { return suits(device, t, limit, point); },
      out.whole_space);
  matmul_tiled_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& tile) {
    candidate.efficiency = 0.5;
    if (as_it_is) {
      candidate.prepare = [&device, op, t, rows, tile] {
        auto kernel = std::make_unique<KernelList>(device);
        add_tiled_product(*kernel, op, t, rows, tile, false);
        return kernel;
      };
      return true;
    }
    const Addressing panels = panels_of(t.b);
    candidate.workspace_bytes = size_t(panels.extent()) * sizeof(float);
    candidate.prepare = [&device, op, t, panels, tile] {
      auto kernel = std::make_unique<KernelList>(device);
      add_packing(*kernel, t, panels);
      add_tiled_product(*kernel, op, t, panels, tile, true);
      return kernel;
    };
    return true;
  });
}

}  // namespace pl::opencl
