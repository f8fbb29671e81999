// The derivatives of the unary functions, as expressions of the op `pointwise`.
#include <map>

#include "ops/activation.h"

namespace pl {
namespace {

struct Slopes {
  const char* by_argument;     // "" where there is none; x0: the function's argument, x1: the gradient
  const char* by_result = "";  // the same with x0 the function's result
  bool rising_only = false;    // by_result holds only where alpha >= 0
};

constexpr const char* kZero = "y0 = 0";

// One entry for each of unary_functions() with a floating result (tests/test_training.py).
const std::map<std::string, Slopes, std::less<>>& slopes() {
  static const std::map<std::string, Slopes, std::less<>> table = {
      {"relu", {"y0 = where(x0 > 0, x1, 0)", "y0 = where(x0 > 0, x1, 0)"}},
      {"relu6", {"y0 = where(x0 > 0 && x0 < 6, x1, 0)", "y0 = where(x0 > 0 && x0 < 6, x1, 0)"}},
      {"leaky_relu", {"y0 = where(x0 > 0, x1, s0 * x1)", "y0 = where(x0 > 0, x1, s0 * x1)", true}},
      {"elu", {"y0 = where(x0 > 0, x1, x1 * s0 * exp(x0))", "y0 = where(x0 > 0, x1, x1 * (x0 + s0))", true}},
      {"selu",
       {"y0 = x1 * where(x0 > 0, 1.0507009873554805, 1.7580993408473766 * exp(x0))",
        "y0 = x1 * where(x0 > 0, 1.0507009873554805, x0 + 1.7580993408473766)"}},
      {"gelu_erf",
       {"y0 = x1 * (0.5 * (1 + erf(x0 * 0.7071067811865476)) + x0 * exp(-0.5 * x0 * x0) * 0.3989422804014327)"}},
      {"gelu_tanh",
       {"t = tanh(0.7978845608028654 * (x0 + 0.044715 * x0 * x0 * x0)); "
        "y0 = x1 * 0.5 * (1 + t + x0 * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x0 * x0))"}},
      {"silu", {"t = sigmoid(x0); y0 = x1 * t * (1 + x0 * (1 - t))"}},
      {"hardswish", {"y0 = where(x0 <= -3, 0, where(x0 < 3, x1 * (x0 / 3 + 0.5), x1))"}},
      {"hardsigmoid", {"y0 = where(x0 > -3 && x0 < 3, x1 / 6, 0)", "y0 = where(x0 > 0 && x0 < 1, x1 / 6, 0)"}},
      {"sigmoid", {"t = sigmoid(x0); y0 = x1 * t * (1 - t)", "y0 = x1 * x0 * (1 - x0)"}},
      {"tanh", {"t = tanh(x0); y0 = x1 * (1 - t * t)", "y0 = x1 * (1 - x0 * x0)"}},
      {"clip", {"y0 = where(x0 >= s0 && x0 <= s1, x1, 0)", "y0 = where(x0 > s0 && x0 < s1, x1, 0)"}},
      {"softplus", {"y0 = where(x0 * s0 > s1, x1, x1 * sigmoid(x0 * s0))"}},
      {"mish", {"t = tanh(log1p(exp(min(x0, 30)))); y0 = x1 * (t + x0 * (1 - t * t) * sigmoid(x0))"}},
      {"softsign", {"t = 1 + abs(x0); y0 = x1 / (t * t)"}},
      {"abs", {"y0 = x1 * sign(x0)"}},
      {"neg", {"y0 = -x1", "y0 = -x1"}},
      {"exp", {"y0 = x1 * exp(x0)", "y0 = x1 * x0"}},
      {"log", {"y0 = x1 / x0"}},
      {"sqrt", {"y0 = 0.5 * x1 * rsqrt(x0)", "y0 = 0.5 * x1 / x0"}},
      {"rsqrt", {"t = rsqrt(x0); y0 = -0.5 * x1 * t * t * t", "y0 = -0.5 * x1 * x0 * x0 * x0"}},
      {"reciprocal", {"y0 = -x1 / (x0 * x0)", "y0 = -x1 * x0 * x0"}},
      {"square", {"y0 = 2 * x0 * x1"}},
      {"sin", {"y0 = x1 * cos(x0)"}},
      {"cos", {"y0 = -x1 * sin(x0)"}},
      {"erf", {"y0 = x1 * 1.1283791670955126 * exp(-x0 * x0)"}},
      {"floor", {kZero}},
      {"ceil", {kZero}},
      {"round", {kZero}},
      {"sign", {kZero}},
      {"trunc", {kZero}},
      {"tan", {"t = cos(x0); y0 = x1 / (t * t)", "y0 = x1 * (1 + x0 * x0)"}},
      {"asin", {"y0 = x1 * rsqrt(1 - x0 * x0)"}},
      {"acos", {"y0 = -x1 * rsqrt(1 - x0 * x0)"}},
      {"atan", {"y0 = x1 / (1 + x0 * x0)"}},
      {"sinh", {"y0 = 0.5 * x1 * (exp(x0) + exp(-x0))"}},
      {"cosh", {"y0 = 0.5 * x1 * (exp(x0) - exp(-x0))"}},
      {"asinh", {"y0 = x1 * rsqrt(x0 * x0 + 1)"}},
      {"acosh", {"y0 = x1 * rsqrt(x0 * x0 - 1)"}},
      {"atanh", {"y0 = x1 / (1 - x0 * x0)"}},
      {"celu", {"y0 = where(x0 > 0, x1, x1 * exp(x0 / s0))"}},
      {"threshold", {"y0 = where(x0 > s0, x1, 0)"}},
  };
  return table;
}

}  // namespace

std::string slope_by_argument(std::string_view function) {
  const auto it = slopes().find(function);
  return it == slopes().end() ? "" : it->second.by_argument;
}

pointwise::Program slope_of(const PostOp& function) {
  return pointwise::parse(function.name, slope_by_argument(function.name), "", 2, 2, pointwise::Arithmetic::f32);
}

std::string slope_by_result(std::string_view function, double alpha) {
  const auto it = slopes().find(function);
  return it == slopes().end() || (it->second.rising_only && !(alpha >= 0)) ? "" : it->second.by_result;
}

}  // namespace pl
