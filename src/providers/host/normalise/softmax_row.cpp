#include "providers/host/normalise/softmax_row.h"

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/largest.h"
#include "providers/host/normalise/row_sums.h"
#include "providers/host/pointwise/vector_math.h"

namespace pl::host {
namespace {

PL_VECTORISED float largest_in(const float* x, int64_t n) { return largest_of_values(x, n, -math::kInfinity); }
PL_VECTORISED void exponentials(const float* x, float* y, int64_t n, float largest) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - largest);
}
PL_VECTORISED void scale(float* y, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}

}  // namespace

float largest_of_row(const float* x, int64_t n) { return largest_in(x, n); }

double exponentials_of_row(const float* x, float* y, int64_t n, float largest) {
  // Piece by piece, so that the exponentials are still in the first cache when they are summed.
  double sum = 0;
  float buffer[kChunk];
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = std::min(kChunk, n - i);
    float* target = y ? y + i : buffer;
    exponentials(x + i, target, count, largest);
    sum += sum_of(target, count);
  }
  return sum;
}

void scale_row(float* y, int64_t n, float factor) { scale(y, n, factor); }

}  // namespace pl::host
