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

// The largest tile that still gives every compute unit two groups; a product of few rows or columns gets one that is
// long the other way.
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
  const RegisterTile wide = tile(16, 8, 8, 8), tall = tile(8, 16, 8, 8), large = tile(16, 16, 8, 8);  // 64 or 128
  const auto groups = [&](const RegisterTile& t) {
    return (rows + t.rows() - 1) / t.rows() * ((columns + t.columns() - 1) / t.columns()) * products;
  };
  const auto enough = int64_t(device.capabilities().compute_units) * 2;
  for (const RegisterTile& t : {large, wide, tall}) {
    if (rows <= t.rows() / 2 || columns <= t.columns() / 2) continue;  // more than half of it would be empty
    if (groups(t) >= enough && t.fits(device)) return t;
  }
  return small;
}

}  // namespace pl::opencl
