// Slope: the derivative of a unary function, times a gradient, on runs of elements.
#pragma once

#include "ops/activation.h"
#include "providers/host/pointwise/evaluator.h"

namespace pl::host {

class Slope {
 public:
  explicit Slope(const PostOp& function)
      : evaluator_(slope_of(function).elements, {function.alpha(), function.beta()}, 1) {}

  // out[i] = the slope at x[i] times grad[i]; out may be x or grad.
  void run(const float* x, const float* grad, int64_t n, float* out) const {
    thread_local std::vector<float> scratch;
    scratch.resize(size_t(evaluator_.scratch()));
    const int64_t steps[] = {1, 1};
    for (int64_t at = 0; at < n; at += kChunk) {
      const int64_t count = std::min(kChunk, n - at);
      const float* const inputs[] = {x + at, grad + at};
      evaluator_.run(inputs, steps, count, scratch.data());
      int64_t step;
      const float* values = evaluator_.result(0, inputs, steps, scratch.data(), step);
      for (int64_t i = 0; i < count; ++i) out[at + i] = values[i * step];
    }
  }

 private:
  Evaluator<float> evaluator_;
};

}  // namespace pl::host
