// Sums of weighted pixels, for kernels that read images at places between pixels.
#pragma once

#include <cstdint>

#include "providers/host/common/simd.h"

namespace pl::host {

struct WeightedPixel {
  int64_t offset;  // of its first channel, in elements
  float weight;
};

// out[i] = sum over the pixels of weight * x[offset + i], for n neighbouring channels.
void sum_pixels(const float* x, const WeightedPixel* pixels, int64_t count, float* out, int64_t n);
// The same for one channel.
inline float sum_pixels(const float* x, const WeightedPixel* pixels, int64_t count) {
  float sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += pixels[k].weight * x[pixels[k].offset];
  return sum;
}

}  // namespace pl::host
