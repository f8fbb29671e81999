#include "ops/activation.h"

#include <cmath>

#include "core/numbers.h"

namespace pl {

const std::vector<UnaryFunction>& unary_functions() {
  using namespace unary;
  static const std::vector<UnaryFunction> functions = {
      {"relu", "max(x, 0)", "max(x, 0)", kIntegers | kPostOp | kIdempotent | kFinite | kScales},
      {"relu6", "min(max(x, 0), 6)", "clip(x, 0, 6)", kIntegers | kPostOp | kIdempotent | kFinite},
      {"leaky_relu", "x if x > 0 else alpha * x", "where(x > 0, x, s0 * x)", kPostOp | kFinite | kScales, 0.01, 0,
       &attr::negative_slope},
      {"elu", "x if x > 0 else alpha * (exp(x) - 1)", "where(x > 0, x, s0 * expm1(x))", kPostOp | kFinite, 1, 0,
       &attr::alpha},
      {"selu", "1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (exp(x) - 1))",
       "1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x))", kFinite},
      {"gelu_erf", "x / 2 * (1 + erf(x / sqrt(2)))", "0.5 * x * (1 + erf(x * 0.7071067811865476))", kPostOp | kFinite},
      {"gelu_tanh", "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))",
       "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))", kPostOp | kFinite},
      {"silu", "x / (1 + exp(-x))", "x * sigmoid(x)", kPostOp | kFinite},
      {"hardswish", "x * min(max(x / 6 + 1/2, 0), 1)", "x * clip(x / 6 + 0.5, 0, 1)", kPostOp | kFinite},
      {"hardsigmoid", "min(max(x / 6 + 1/2, 0), 1)", "clip(x / 6 + 0.5, 0, 1)", kPostOp | kFinite},
      {"sigmoid", "1 / (1 + exp(-x))", "sigmoid(x)", kPostOp | kFinite},
      {"tanh", "tanh(x)", "tanh(x)", kPostOp | kFinite},
      {"clip", "min(max(x, alpha), beta)", "min(max(x, s0), s1)", kIntegers | kPostOp, -kInfinity, kInfinity,
       &attr::min, &attr::max},
      {"softplus", "x if alpha * x > beta else log(1 + exp(alpha * x)) / alpha",
       "where(s0 * x > s1, x, log1p(exp(s0 * x)) / s0)", kPostOp | kDivides | kFinite, 1, 20, &attr::beta,
       &attr::threshold},
      {"mish", "x * tanh(log(1 + exp(x)))", "x * tanh(log1p(exp(x)))", kPostOp | kFinite},
      {"softsign", "x / (1 + |x|)", "x / (1 + abs(x))", kFinite},
      {"abs", "|x|", "abs(x)", kIntegers | kPostOp | kIdempotent | kFinite | kScales},
      {"neg", "-x", "-x", kIntegers | kPostOp | kFinite | kScales},
      {"exp", "exp(x)", "exp(x)", kPostOp},
      {"log", "ln(x)", "log(x)", 0},
      {"sqrt", "sqrt(x)", "sqrt(x)", 0},
      {"rsqrt", "1 / sqrt(x)", "rsqrt(x)", 0},
      {"reciprocal", "1 / x", "1 / x", 0},
      {"square", "x * x", "x * x", kIntegers | kPostOp},
      {"sin", "sin(x)", "sin(x)", kFinite},
      {"cos", "cos(x)", "cos(x)", kFinite},
      {"erf", "erf(x) = 2 / sqrt(pi) * integral from 0 to x of exp(-t^2) dt", "erf(x)", kFinite},
      {"floor", "the largest integer not above x", "floor(x)", kIntegers | kIdempotent | kFinite},
      {"ceil", "the smallest integer not below x", "ceil(x)", kIntegers | kIdempotent | kFinite},
      {"round", "the nearest integer, halves to the even one", "round(x)", kIntegers | kIdempotent | kFinite},
      {"sign", "-1, 0 or 1; NaN for NaN", "sign(x)", kIntegers | kIdempotent | kFinite},
      {"trunc", "the nearest integer toward zero", "where(x < 0, ceil(x), floor(x))",
       kIntegers | kIdempotent | kFinite},
      {"tan", "tan(x)", nullptr, 0},
      {"asin", "arcsin(x), in [-pi/2, pi/2]", nullptr, 0},
      {"acos", "arccos(x), in [0, pi]", nullptr, 0},
      {"atan", "arctan(x), in [-pi/2, pi/2]", nullptr, kFinite},
      {"sinh", "(exp(x) - exp(-x)) / 2", nullptr, 0},
      {"cosh", "(exp(x) + exp(-x)) / 2", nullptr, 0},
      {"asinh", "ln(x + sqrt(x^2 + 1))", nullptr, kFinite},
      {"acosh", "ln(x + sqrt(x^2 - 1))", nullptr, 0},
      {"atanh", "ln((1 + x) / (1 - x)) / 2", nullptr, 0},
      {"celu", "x if x > 0 else alpha * (exp(x / alpha) - 1)", "where(x > 0, x, s0 * expm1(x / s0))", kDivides, 1, 0,
       &attr::alpha},
      {"threshold", "beta if x <= alpha else x", "where(x <= s0, s1, x)", 0, 0, 0, &attr::threshold, &attr::value},
      {"logical_not", "x == 0", "x == 0", kIntegers | kBoolean},
      {"bitwise_not", "~x = -x - 1", nullptr, kIntegers | kBits},
      {"isnan", "x != x", "isnan(x)", kBoolean},
      {"isinf", "|x| == infinity", "abs(x) == inf", kBoolean},
  };
  return functions;
}

const UnaryFunction* find_unary_function(std::string_view name) {
  if (name == "gelu") name = "gelu_erf";
  for (const UnaryFunction& function : unary_functions())
    if (name == function.name) return &function;
  return nullptr;
}

ElementExpression expression_of(std::string_view function, double alpha, double beta) {
  const UnaryFunction* found = find_unary_function(function);
  if (!found || !found->expression) return {};
  return {concat("x = x0; y0 = ", found->expression), {alpha, beta}};
}

UnaryCall unary_call(const std::string& name, double alpha, double beta) {
  if (name == "gelu_erf") return {"gelu", {}};
  UnaryCall call{name, {}};
  if (name == "gelu_tanh") {
    call.op = "gelu";
    call.attributes.set(attr::approximate, std::string("tanh"));
  }
  const UnaryFunction& function = *find_unary_function(name);
  // An infinite default stands for None.
  const auto set = [&](const Key<double>* key, double value, double fallback) {
    if (key && !(std::isinf(value) && value == fallback)) call.attributes.set(*key, value);
  };
  set(function.alpha_key, alpha, function.alpha);
  set(function.beta_key, beta, function.beta);
  return call;
}

}  // namespace pl
