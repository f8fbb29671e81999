// grouped_mm and grouped_mm_backward_weights: one launch for all groups, which find their rows on the device
// (kernels/matmul/grouped_rows.clh).
#include <algorithm>

#include "providers/opencl/addressing/register_tile.h"
#include "providers/opencl/matmul/matmul_common.h"
#include "providers/opencl/matrix_units/mma.h"

namespace pl::opencl {
namespace {

size_t tiles(int64_t size, int64_t tile) { return size_t((size + tile - 1) / tile); }

struct GroupedMmSizes {
  int64_t rows, depth, columns, groups;

  explicit GroupedMmSizes(const Op& op)
      : rows(op.in(0).shape[0]),
        depth(op.in(0).shape[1]),
        columns(op.out().shape[op.out().rank() - 1]),
        groups(op.in(2).elements()) {}

  int64_t rows_of_group() const { return std::max<int64_t>(1, rows / std::max<int64_t>(groups, 1)); }
  // Tiles of so many rows: the most that any groups need, and those behind the last one.
  size_t slots(int64_t tile) const { return size_t(rows / tile + groups + 1); }
};

// A candidate with plain activations.
Candidate base_of(const Op& op) {
  Candidate base = make_candidate(op, "");
  for (TensorDesc& desc : base.inputs) desc = TensorDesc::dense(desc.dtype, desc.shape);
  for (TensorDesc& desc : base.outputs) desc = TensorDesc::dense(desc.dtype, desc.shape);
  return base;
}

// The weight as (groups, k, n).
Addressing weight_matrices(const Op& op, const TensorDesc& weight) {
  Addressing a(weight);
  if (op.attributes[attr::transpose_weight]) swap_dims(a, 1, 2);
  return a;
}

// ---- tiles in local memory ----

// The tile that suits a product of so many rows, and one of fewer rows for groups that have few.
std::vector<RegisterTile> local_tiles(const OpenclDevice& device, int64_t rows, int64_t columns, int64_t products) {
  std::vector<RegisterTile> found{register_tile(device, rows, columns, products)};
  RegisterTile flat;
  flat.local_y = 4;
  if (rows <= flat.rows() && device.capabilities().gpu) found.insert(found.begin(), flat);
  found.erase(std::remove_if(found.begin(), found.end(), [&](const RegisterTile& t) { return !t.fits(device); }),
              found.end());
  return found;
}

std::string name_of(const char* kernel, const RegisterTile& tile) {
  return concat(kernel, "[", tile.rows(), "x", tile.columns(), "]");
}

double efficiency(const OpenclDevice& device, const RegisterTile& tile, int64_t rows, int64_t columns,
                  int64_t products) {
  if (device.capabilities().cpu) return 0.03;  // barriers
  return 0.7 * tile.used(device, rows, columns, products);
}

void add_local(const Op& op, OpenclDevice& device, CandidateList& out) {
  const GroupedMmSizes sizes(op);
  for (const RegisterTile& tile : local_tiles(device, sizes.rows_of_group(), sizes.columns, sizes.groups)) {
    Candidate candidate = base_of(op);
    candidate.implementation = name_of("grouped_mm_local", tile);
    candidate.inputs[1] = op.in(1).with_layout(op.in(1).layout);
    candidate.efficiency = efficiency(device, tile, sizes.rows_of_group(), sizes.columns, sizes.groups);
    candidate.prepare = [&device, tile, sizes, inputs = candidate.inputs, y = candidate.outputs[0],
                         weight = weight_matrices(op, candidate.inputs[1])] {
      KernelSource source("matmul/grouped_mm_local.cl");
      source.tensor("X", inputs[0]).tensor("W", weight).tensor("OFF", inputs[2]).tensor("DST", y);
      tile.define(source);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "grouped_mm_local");
      launch.input(0, "X").input(1, "W").input(2, "OFF").output(0, "DST");
      launch.global({tiles(sizes.columns, tile.columns()) * size_t(tile.local_x),
                     sizes.slots(tile.rows()) * size_t(tile.local_y)});
      launch.local({size_t(tile.local_x), size_t(tile.local_y)});
      return kernel;
    };
    out.add(std::move(candidate));
  }
}

void add_weights_local(const Op& op, OpenclDevice& device, CandidateList& out) {
  const GroupedMmSizes sizes(op);
  for (const RegisterTile& tile : local_tiles(device, sizes.depth, sizes.columns, sizes.groups)) {
    Candidate candidate = base_of(op);
    candidate.implementation = name_of("grouped_mm_weights_local", tile);
    candidate.efficiency = efficiency(device, tile, sizes.depth, sizes.columns, sizes.groups);
    candidate.prepare = [&device, tile, sizes, inputs = candidate.inputs, y = candidate.outputs[0]] {
      KernelSource source("matmul/grouped_mm_weights_local.cl");
      source.tensor("X", inputs[0]).tensor("GRAD", inputs[1]).tensor("OFF", inputs[2]).tensor("DST", y);
      tile.define(source);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "grouped_mm_weights_local");
      launch.input(0, "X").input(1, "GRAD").input(2, "OFF").output(0, "DST");
      launch.global({tiles(sizes.columns, tile.columns()) * size_t(tile.local_x),
                     tiles(sizes.depth, tile.rows()) * size_t(tile.local_y), size_t(sizes.groups)});
      launch.local({size_t(tile.local_x), size_t(tile.local_y), 1});
      return kernel;
    };
    out.add(std::move(candidate));
  }
}

// ---- tiles in registers, for CPUs ----

constexpr int64_t kPanelColumns = 16;

// As many columns as a vector of the device has, at most so many.
int vector_of(const OpenclDevice& device, int64_t most) {
  int vector = std::clamp(device.capabilities().native_vector_float, 4, 16);
  while (vector > 4 && vector > most) vector /= 2;
  return vector;
}
int most_rows(const OpenclDevice& device) { return device.capabilities().native_vector_float >= 16 ? 12 : 6; }

void add_tiled(const Op& op, OpenclDevice& device, CandidateList& out) {
  const GroupedMmSizes sizes(op);
  const bool transposed = op.attributes[attr::transpose_weight];
  const int vector = vector_of(device, kPanelColumns), vectors = sizes.columns > vector ? 2 : 1;
  for (const int rows : {1, 4, most_rows(device)}) {
    const int64_t usual = sizes.rows_of_group();
    if (rows == 1 ? usual > 4 : usual <= rows / 2) continue;  // read too often, or most of it empty
    Candidate candidate = base_of(op);
    candidate.implementation = concat("grouped_mm_tiled[", rows, "x", vector * vectors, "]");
    candidate.inputs[1] = op.in(1).with_layout(Layout::parse(transposed ? "aBc16b" : "aCb16c"));
    candidate.efficiency = 0.5;
    Addressing panels(candidate.inputs[1]);
    if (!transposed) swap_dims(panels, 1, 2);
    candidate.prepare = [&device, rows, vector, vectors, sizes, panels, inputs = candidate.inputs,
                         y = candidate.outputs[0]] {
      KernelSource source("matmul/grouped_mm_tiled.cl");
      source.tensor("X", inputs[0]).tensor("PAN", panels).tensor("OFF", inputs[2]).tensor("DST", y);
      source.define("VECTOR", vector).define("TILE_VECTORS", vectors).define("TILE_ROWS", rows);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "grouped_mm_tiled");
      launch.input(0, "X").input(1, "PAN").input(2, "OFF").output(0, "DST");
      launch.global({sizes.slots(rows), tiles(sizes.columns, int64_t(vector) * vectors)}).local({1, 1});
      return kernel;
    };
    out.add(std::move(candidate));
  }
}

void add_weights_tiled(const Op& op, OpenclDevice& device, CandidateList& out) {
  const GroupedMmSizes sizes(op);
  const int vector = vector_of(device, sizes.columns);
  if (vector > sizes.columns) return;
  const int rows = sizes.depth >= 8 ? 8 : sizes.depth >= 4 ? 4 : 1;
  Candidate candidate = base_of(op);
  candidate.implementation = concat("grouped_mm_weights_tiled[", rows, "x", vector, "]");
  candidate.efficiency = 0.4;
  candidate.prepare = [&device, rows, vector, sizes, inputs = candidate.inputs, y = candidate.outputs[0]] {
    KernelSource source("matmul/grouped_mm_weights_tiled.cl");
    source.tensor("X", inputs[0]).tensor("GRAD", inputs[1]).tensor("OFF", inputs[2]).tensor("DST", y);
    source.define("VECTOR", vector).define("TILE_ROWS", rows);
    auto kernel = std::make_unique<KernelList>(device);
    Launch& launch = kernel->add(source, "grouped_mm_weights_tiled");
    launch.input(0, "X").input(1, "GRAD").input(2, "OFF").output(0, "DST");
    launch.global({tiles(sizes.columns, vector), tiles(sizes.depth, rows), size_t(sizes.groups)}).local({1, 1, 1});
    return kernel;
  };
  out.add(std::move(candidate));
}

void list_products(const Op& op, OpenclDevice& device, CandidateList& out) {
  const size_t first = out.candidates.size();
  if (!device.capabilities().cpu && mma_suits(op, device, out)) list_grouped_mma(op, device, out);
  const size_t others = out.candidates.size();
  if (device.capabilities().cpu) add_tiled(op, device, out);
  add_local(op, device, out);
  if (others > first) beside_matrix_unit(out, others);
}

void list_weights(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (device.capabilities().cpu) add_weights_tiled(op, device, out);
  add_weights_local(op, device, out);
}

PL_OPENCL_OP("grouped_mm", list_products);
PL_OPENCL_OP("grouped_mm_backward_weights", list_weights);

}  // namespace
}  // namespace pl::opencl
