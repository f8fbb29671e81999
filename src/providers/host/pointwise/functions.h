// Elementwise functions as loops over runs: the kinds `unary` and `binary`, and the post-ops that other ops end with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/post_ops.h"

namespace pl::host {

// y[i] = f(x[i]); x and y may be the same.
template <class T>
using UnaryRun = void (*)(const T* x, T* y, int64_t n, double alpha, double beta);
// By the names of ops/activation.h; null if the function is not defined on such elements.
UnaryRun<float> find_float_unary(std::string_view name);
UnaryRun<int64_t> find_integer_unary(std::string_view name);
// A limit of clip as an integer: rounded inwards, infinities to the ends of the range.
int64_t integer_limit(double limit, bool lowest);

// The derivative of gelu_erf, times 1.
UnaryRun<float> gelu_erf_slope();

// out[i] = f(a[i * a_step], b[i * b_step]) with steps of 0 or 1; out may be a or b.  Comparisons give 1 or 0.
// Integer arithmetic wraps around; its division truncates and gives 0 for a divisor of 0.
template <class T>
using BinaryRun = void (*)(const T* a, int64_t a_step, const T* b, int64_t b_step, T* out, int64_t n);
BinaryRun<float> find_float_binary(std::string_view name);
BinaryRun<int64_t> find_integer_binary(std::string_view name);

// A function with its parameters, as a post-op applies it.
struct Activation {
  UnaryRun<float> floats = nullptr;
  UnaryRun<int64_t> integers = nullptr;
  double alpha = 0, beta = 0;

  static Activation of(const PostOp& function);
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

// All post-ops of an op, on runs of its result in place.
class AppliedPostOps {
 public:
  AppliedPostOps() = default;
  explicit AppliedPostOps(const Op& op, size_t first = 0);  // from this step of the list on
  bool empty() const { return steps_.empty(); }
  // operand(i): what input i of the op adds to these values, or multiplies them by.
  template <class T, class Operand>
  void apply(T* values, int64_t n, Operand operand) const {
    for (const Step& step : steps_) {
      switch (step.kind) {
        case PostOp::Kind::function: step.function.apply(values, n); break;
        case PostOp::Kind::scale: scale(values, n, step.factor); break;
        case PostOp::Kind::add: add(values, n, operand(step.input)); break;
        case PostOp::Kind::multiply: multiply(values, n, operand(step.input)); break;
      }
    }
  }
  // Of ops that have no operands.
  template <class T>
  void apply(T* values, int64_t n) const {
    apply(values, n, [](int) -> const T* { return nullptr; });
  }

 private:
  struct Step {
    PostOp::Kind kind;
    Activation function;
    double factor;
    int input;
  };
  template <class T>
  static void scale(T* values, int64_t n, double factor) {
    for (int64_t i = 0; i < n; ++i) values[i] = T(values[i] * T(factor));
  }
  template <class T>
  static void add(T* values, int64_t n, const T* operand) {
    for (int64_t i = 0; i < n; ++i) values[i] += operand[i];
  }
  template <class T>
  static void multiply(T* values, int64_t n, const T* operand) {
    for (int64_t i = 0; i < n; ++i) values[i] *= operand[i];
  }

  std::vector<Step> steps_;
};

// Post-ops as most kernels apply them: an input that is added and then a function before a result is stored, and what
// is left of the list on what was stored just now.
struct StoredPostOps {
  SumThenFunction first;
  AppliedPostOps rest;

  explicit StoredPostOps(const Op& op);
};

}  // namespace pl::host
