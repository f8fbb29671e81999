// The steps of a softmax over a row of neighbours.
#pragma once

#include <cstdint>

namespace pl::host {

// The largest of n values, -infinity of none.  Passes over NaN, which the sum of exponentials then shows.
float largest_of_row(const float* x, int64_t n);

// y[i] = exp(x[i] - largest), and their sum as sum_of() adds.  y may be x; null: only the sum is wanted.
double exponentials_of_row(const float* x, float* y, int64_t n, float largest);

void scale_row(float* y, int64_t n, float factor);

}  // namespace pl::host
