// matmul and linear on CPUs: register tiles over panels of columns (kernels/matmul/matmul_tiled.cl).
#include <algorithm>

#include "providers/opencl/matmul_common.h"

namespace pl::opencl {
namespace {

constexpr int kRows = kStackDims, kColumns = kStackDims + 1;
constexpr int64_t kPanel = 16;
// Fewer rows than this do not repay a copy of the other matrix, if its rows can be used as they are.
constexpr int64_t kRowsWorthPacking = 16;

struct Tile {
  int vector = 4, vectors = 2, rows = 1;
};

Tile tile_of(const OpenclDevice& device, const MatmulTensors& t, int64_t vector_limit) {
  Tile tile;
  const int64_t native = std::clamp(device.capabilities().native_vector_float, 4, 16);
  tile.vector = int(std::min(native, vector_limit));
  while (tile.vector > 4 && tile.vector / 2 >= t.columns()) tile.vector /= 2;
  // Accumulators, a row of the panels and a value fit the registers: 32 of AVX-512, 16 of AVX2.
  tile.vectors = t.columns() > tile.vector ? 2 : 1;
  tile.rows = native == 16 ? 12 : 6;
  if (t.rows() <= 4) {
    tile.rows = t.rows() == 1 ? 1 : 4;
    if (t.rows() == 1 && t.columns() > 2 * tile.vector) tile.vectors = 4;
  }
  return tile;
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

void add_product(KernelList& kernel, const Op& op, const MatmulTensors& t, const Addressing& panels, const Tile& tile,
                 bool packed) {
  KernelSource source("matmul/matmul_tiled.cl");
  source.tensor("A", t.a).tensor("PAN", panels).tensor("DST", t.dst);
  t.epilogue.define(source, op);
  source.define("VECTOR", tile.vector).define("TILE_VECTORS", tile.vectors).define("TILE_ROWS", tile.rows);
  Launch& launch = kernel.add(source, "matmul_tiled").input(0, "A");
  packed ? launch.workspace("PAN") : launch.input(1, "PAN");
  launch.output(0, "DST");
  t.epilogue.pass(launch);
  const int64_t width = int64_t(tile.vector) * tile.vectors;
  launch.global(
      {size_t((t.rows() + tile.rows - 1) / tile.rows), size_t((t.columns() + width - 1) / width), size_t(t.stack())});
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
      .global({size_t((t.depth() + kTileK - 1) / kTileK), size_t((t.columns() + kPanel - 1) / kPanel), size_t(stack)})
      .local({1, 1, 1});
}

}  // namespace

bool complete_matmul_tiled(const Op& op, OpenclDevice& device, const MatmulTensors& t, bool b_is_panels,
                           Candidate& candidate) {
  if (!t.dst.inner.empty()) return false;
  candidate.efficiency = 0.5;
  const Addressing rows = columns_first(t.b);
  if (b_is_panels) {
    candidate.prepare = [&device, op, t, rows, tile = tile_of(device, t, kPanel)] {
      auto kernel = std::make_unique<KernelList>(device);
      add_product(*kernel, op, t, rows, tile, false);
      return kernel;
    };
    return true;
  }
  // The widest vectors that no row leaves a part of.
  const int64_t vector = std::min(kPanel, t.columns() & -t.columns());
  const bool rows_usable = t.b.inner.empty() && t.b.strides[kColumns] == 1 && vector >= 4;
  if (rows_usable && t.rows() < kRowsWorthPacking) {
    candidate.prepare = [&device, op, t, rows, tile = tile_of(device, t, vector)] {
      auto kernel = std::make_unique<KernelList>(device);
      add_product(*kernel, op, t, rows, tile, false);
      return kernel;
    };
    return true;
  }
  const Addressing panels = panels_of(t.b);
  candidate.workspace_bytes = size_t(panels.extent()) * sizeof(float);
  candidate.prepare = [&device, op, t, panels, tile = tile_of(device, t, kPanel)] {
    auto kernel = std::make_unique<KernelList>(device);
    add_packing(*kernel, t, panels);
    add_product(*kernel, op, t, panels, tile, true);
    return kernel;
  };
  return true;
}

}  // namespace pl::opencl
