// The tunables of kernels/common/register_tile.clh and their choice for a product of rows x columns.
#pragma once

#include <algorithm>
#include <vector>

#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/opencl_device.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {

struct RegisterTile {
  int local_x = 16, local_y = 16;  // work-items of a group
  int tile_x = 4, tile_y = 4;      // columns and rows of each
  int tile_k = 16;                 // terms of the sum at a time

  RegisterTile() = default;
  explicit RegisterTile(const Point& point)
      : local_x(point["LOCAL_X"]),
        local_y(point["LOCAL_Y"]),
        tile_x(point["TILE_X"]),
        tile_y(point["TILE_Y"]),
        tile_k(point["TILE_K"]) {}
  Point point() const {
    return {{"LOCAL_X", local_x}, {"LOCAL_Y", local_y}, {"TILE_X", tile_x}, {"TILE_Y", tile_y}, {"TILE_K", tile_k}};
  }
  static std::vector<Tunable> tunables() {
    return {{"LOCAL_X", {8, 16, 32}},
            {"LOCAL_Y", {4, 8, 16}},
            {"TILE_X", {4, 8}},
            {"TILE_Y", {4, 8}},
            {"TILE_K", {4, 8, 16}}};
  }

  int64_t columns() const { return int64_t(local_x) * tile_x; }
  int64_t rows() const { return int64_t(local_y) * tile_y; }
  int64_t items() const { return int64_t(local_x) * local_y; }

  // Whether the device can run groups of this size with the local memory they need.
  bool fits(const OpenclDevice& device) const {
    const size_t bytes = size_t(tile_k) * size_t(columns() + rows() + 8) * sizeof(float);
    return size_t(items()) <= device.capabilities().max_work_group && bytes <= device.capabilities().local_memory;
  }
  // Whether it is worth trying for a product of rows x columns with so many terms in a row: not mostly empty, enough
  // work-items to fill two of the device's subgroups, and no more elements to fetch in a step than registers hold.
  bool suits(const OpenclDevice& device, int64_t product_rows, int64_t product_columns, int64_t terms) const {
    if (!fits(device) || items() < 64 || items() > 256) return false;
    if (rows() > 32 && product_rows <= rows() / 2) return false;
    if (columns() > 32 && product_columns <= columns() / 2) return false;
    if (tile_k > 4 && terms <= tile_k / 2) return false;
    if (tile_k == 4 && terms > 8) return false;
    return (rows() + columns()) * tile_k / items() <= 24;
  }
  // Part of the device's work that is the product's: of a tile's rows and columns some are none of it, and of the
  // units some have no tile, or are still at their last when the others have ended.
  double used(const OpenclDevice& device, int64_t product_rows, int64_t product_columns, int64_t products) const {
    const auto tiles = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
    const int64_t count = tiles(product_rows, rows()) * tiles(product_columns, columns()) * products;
    const int64_t units = std::max<int64_t>(1, device.capabilities().compute_units);
    return double(product_rows) * double(product_columns) * double(products) /
           (double(tiles(count, units) * units) * double(rows() * columns()));
  }
  void define(KernelSource& source) const { point().define(source); }
};

// The largest tile that still gives every compute unit two groups; a product of few rows or columns gets one that is
// long the other way.  Where local memory is ordinary memory (most mobile GPUs), or work-groups must be small, the
// least one: sharing less costs less there than waiting for each other.
inline RegisterTile register_tile(const OpenclDevice& device, int64_t rows, int64_t columns, int64_t products) {
  const auto tile = [](int local_x, int local_y, int tile_x, int tile_y) {
    RegisterTile made;
    made.local_x = local_x;
    made.local_y = local_y;
    made.tile_x = tile_x;
    made.tile_y = tile_y;
    return made;
  };
  const RegisterTile small = tile(16, 16, 4, 4);                                                      // 64 x 64
  const RegisterTile least = tile(8, 8, 4, 4);                                                        // 32 x 32
  const RegisterTile wide = tile(16, 8, 8, 8), tall = tile(8, 16, 8, 8), large = tile(16, 16, 8, 8);  // 64 or 128
  const auto groups = [&](const RegisterTile& t) {
    return (rows + t.rows() - 1) / t.rows() * ((columns + t.columns() - 1) / t.columns()) * products;
  };
  if (device.capabilities().gpu && !device.capabilities().dedicated_local_memory) return least;
  const auto enough = int64_t(device.capabilities().compute_units) * 2;
  for (const RegisterTile& t : {large, wide, tall}) {
    if (rows <= t.rows() / 2 || columns <= t.columns() / 2) continue;  // more than half of it would be empty
    if (groups(t) >= enough && t.fits(device)) return t;
  }
  return small.fits(device) ? small : least;
}

}  // namespace pl::opencl
