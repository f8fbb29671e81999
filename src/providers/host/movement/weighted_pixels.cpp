#include "providers/host/movement/weighted_pixels.h"

#include "providers/host/common/independent.h"

namespace pl::host {

// Four pixels at a time, so that the sums are loaded and stored a quarter as often.
PL_VECTORISED void sum_pixels(const float* x, const WeightedPixel* pixels, int64_t count, float* __restrict out,
                              int64_t n) {
  if (count == 0)
    for (int64_t i = 0; i < n; ++i) out[i] = 0;
  for (int64_t k = 0; k < count; k += 4) {
    const float* at[4];
    float weight[4];
    for (int64_t j = 0; j < 4; ++j) {
      const bool there = k + j < count;
      at[j] = x + pixels[there ? k + j : k].offset;
      weight[j] = there ? pixels[k + j].weight : 0.0f;
    }
    const int64_t left = count - k;
    if (left == 1) {
      PL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = (k ? out[i] : 0.0f) + weight[0] * at[0][i];
    } else if (left == 2) {
      PL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = (k ? out[i] : 0.0f) + weight[0] * at[0][i] + weight[1] * at[1][i];
    } else if (left == 3) {
      PL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        out[i] = (k ? out[i] : 0.0f) + weight[0] * at[0][i] + weight[1] * at[1][i] + weight[2] * at[2][i];
    } else {
      PL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        out[i] = (k ? out[i] : 0.0f) + weight[0] * at[0][i] + weight[1] * at[1][i] + weight[2] * at[2][i] +
                 weight[3] * at[3][i];
    }
  }
}

}  // namespace pl::host
