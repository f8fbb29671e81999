#include "providers/host/normalise/row_sums.h"

#include "providers/host/common/host.h"

namespace pl::host {
namespace {

constexpr int kSumLanes = 16;

// term(i) of each element, added up.
template <class Term>
PL_INLINE double sum_of_terms(int64_t n, const Term& term) {
  double total = 0;
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t end = std::min(n, start + kChunk);
    float lanes[kSumLanes] = {};
    int64_t i = start;
    for (; i + kSumLanes <= end; i += kSumLanes)
      for (int l = 0; l < kSumLanes; ++l) lanes[l] += term(i + l);
    for (; i < end; ++i) lanes[0] += term(i);
    for (int l = 0; l < kSumLanes; ++l) total += double(lanes[l]);
  }
  return total;
}

}  // namespace

PL_VECTORISED double sum_of(const float* x, int64_t n) {
  return sum_of_terms(n, [x](int64_t i) { return x[i]; });
}

PL_VECTORISED double sum_of_squares(const float* x, int64_t n, float center) {
  return sum_of_terms(n, [x, center](int64_t i) { return (x[i] - center) * (x[i] - center); });
}

PL_VECTORISED double sum_of_products(const float* a, const float* x, int64_t n, float center) {
  return sum_of_terms(n, [a, x, center](int64_t i) { return a[i] * (x[i] - center); });
}

}  // namespace pl::host
