// Sums over a row of neighbours: in f32 within runs of kChunk elements and 16 lanes, in double between them.
#pragma once

#include <cstdint>

namespace pl::host {

double sum_of(const float* x, int64_t n);
double sum_of_squares(const float* x, int64_t n, float center);                   // of (x - center)^2
double sum_of_products(const float* a, const float* x, int64_t n, float center);  // of a * (x - center)

}  // namespace pl::host
