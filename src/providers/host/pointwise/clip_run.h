// The loop of clip between limits that are one value each.
#pragma once

#include <algorithm>
#include <cstdint>

#include "providers/host/common/independent.h"
#include "providers/host/pointwise/vector_math.h"

namespace pl::host {

// y[i] = x[i], at least `low` and then at most `high`; NaN where one of the three is; y may be x.
template <class T>
PL_VECTORISED void clip_run(const T* x, T low, T high, T* y, int64_t n) {
  if (low != low || high != high) return void(std::fill_n(y, n, low + high));
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = math::clip(x[i], low, high);
}

}  // namespace pl::host
