// The windows of pools along each axis, clipped to the input.
#pragma once

#include <vector>

#include "ops/spatial.h"

namespace pl::host {

// The window of one output position along one axis.
struct PoolRange {
  int64_t first, count, step;
  int64_t full;  // positions it counts for an average that includes padding
};

// Of a pool or adaptive_pool, d, h and w; axes that it does not have have one window.
void pool_ranges(const Op& op, const int64_t in[3], const int64_t out[3], std::vector<PoolRange> ranges[3]);

}  // namespace pl::host
