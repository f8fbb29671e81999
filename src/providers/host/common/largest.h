// The largest value of a row.
#pragma once

#include <cstdint>

#include "providers/host/common/simd.h"

namespace pl::host {

// Four lanes: vectors that every instruction set has.  Of wider ones, compared where the set lacks them, and of arrays
// of lanes GCC 12 makes scalars: 1.8 and 0.2 ns an element with AVX2, these 0.06.
typedef float FourLanes __attribute__((vector_size(16)));
typedef float FourInMemory __attribute__((vector_size(16), aligned(4), may_alias));

PL_INLINE FourLanes larger_lanes(FourLanes a, FourLanes b) { return a > b ? a : b; }
PL_INLINE float larger_value(float a, float b) { return a > b ? a : b; }

// The largest of x and of `largest`.  Passes over NaN.
PL_INLINE float largest_of_values(const float* x, int64_t n, float largest) {
  constexpr int kChains = 4;  // of comparisons, each of which waits for the one before
  FourLanes most[kChains];
  for (int s = 0; s < kChains; ++s) most[s] = FourLanes{} + largest;
  int64_t i = 0;
  for (; i + 4 * kChains <= n; i += 4 * kChains)
#pragma GCC unroll 4
    for (int s = 0; s < kChains; ++s)
      most[s] = larger_lanes(*reinterpret_cast<const FourInMemory*>(x + i + 4 * s), most[s]);
  for (; i + 4 <= n; i += 4) most[0] = larger_lanes(*reinterpret_cast<const FourInMemory*>(x + i), most[0]);
  most[0] = larger_lanes(larger_lanes(most[3], most[2]), larger_lanes(most[1], most[0]));
  float result = larger_value(larger_value(most[0][3], most[0][2]), larger_value(most[0][1], most[0][0]));
  for (; i < n; ++i) result = larger_value(x[i], result);
  return result;
}

}  // namespace pl::host
