// Sums of runs: what rows of embeddings, of messages in graphs and of steps' gradients are added up by.
#pragma once

#include <cstdint>

namespace pl::host {

// sums[i] += from[i] for i below n; they are different memory.
void add_run(const float* from, int64_t n, float* sums);

}  // namespace pl::host
