// Elementwise functions as loops over runs: the kinds `unary` and `binary`, and the activation other ops end with.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/op.h"

namespace pl::host {

// y[i] = f(x[i]); x and y may be the same.
template <class T>
using UnaryRun = void (*)(const T* x, T* y, int64_t n, double alpha, double beta);
// By the names of ops/activation.h; null if the function is not defined on such elements.
UnaryRun<float> find_float_unary(std::string_view name);
UnaryRun<int64_t> find_integer_unary(std::string_view name);

// out[i] = f(a[i * a_step], b[i * b_step]) with steps of 0 or 1; out may be a or b.  Comparisons give 1 or 0.
// Integer arithmetic wraps around; its division truncates and gives 0 for a divisor of 0.
template <class T>
using BinaryRun = void (*)(const T* a, int64_t a_step, const T* b, int64_t b_step, T* out, int64_t n);
BinaryRun<float> find_float_binary(std::string_view name);
BinaryRun<int64_t> find_integer_binary(std::string_view name);

// What an op applies to its result: attributes activation, activation_alpha, activation_beta.
struct Activation {
  UnaryRun<float> floats = nullptr;
  UnaryRun<int64_t> integers = nullptr;
  double alpha = 0, beta = 0;

  static Activation of(const Op& op);
  explicit operator bool() const { return floats != nullptr; }
  void apply(float* values, int64_t n) const {
    if (floats) floats(values, values, n, alpha, beta);
  }
  void apply(int64_t* values, int64_t n) const {
    if (integers) integers(values, values, n, alpha, beta);
  }
  // In place on doubles, through f32: the arithmetic of activations.
  void apply(double* values, int64_t n) const;
};

}  // namespace pl::host
