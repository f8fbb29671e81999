// The tunables of kernels/common/register_tile.clh and their choice for a product of rows x columns.
#pragma once

#include <algorithm>

#include "providers/opencl/kernel_source.h"
#include "providers/opencl/opencl_device.h"

namespace pl::opencl {

struct RegisterTile {
  int local_x = 16, local_y = 16;  // work-items of a group
  int tile_x = 4, tile_y = 4;      // columns and rows of each
  int tile_k = 16;                 // terms of the sum at a time

  int64_t columns() const { return int64_t(local_x) * tile_x; }
  int64_t rows() const { return int64_t(local_y) * tile_y; }

  // Whether the device can run groups of this size with the local memory they need.
  bool fits(const OpenclDevice& device) const {
    const size_t items = size_t(local_x) * size_t(local_y);
    const size_t bytes = size_t(tile_k) * size_t(columns() + rows() + 8) * sizeof(float);
    return items <= device.capabilities().max_work_group && bytes <= device.capabilities().local_memory;
  }
  void define(KernelSource& source) const {
    source.define("LOCAL_X", local_x).define("LOCAL_Y", local_y).define("TILE_X", tile_x);
    source.define("TILE_Y", tile_y).define("TILE_K", tile_k);
  }
};

// Large tiles, 8 x 8 a work-item, where they still give every compute unit two groups; else small ones.
inline RegisterTile register_tile(const OpenclDevice& device, int64_t rows, int64_t columns, int64_t products) {
  RegisterTile large, small;
  large.tile_x = large.tile_y = 8;
  const auto groups = [&](const RegisterTile& tile) {
    return (rows + tile.rows() - 1) / tile.rows() * ((columns + tile.columns() - 1) / tile.columns()) * products;
  };
  const auto enough = int64_t(device.capabilities().compute_units) * 2;
  if (rows > small.rows() && columns > small.columns() && groups(large) >= enough && large.fits(device)) return large;
  return small;
}

}  // namespace pl::opencl
