// What the elementwise ops compute, in double, and where to ask them; shared by the tests of every provider.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "host_testing.h"
#include "ops/activation.h"

namespace pl::host_testing {

inline double unary_reference(const std::string& name, double x, double alpha, double beta) {
  const auto clamp = [](double v, double low, double high) { return std::min(std::max(v, low), high); };
  if (name == "relu") return std::max(x, 0.0);
  if (name == "relu6") return clamp(x, 0, 6);
  if (name == "leaky_relu") return x > 0 ? x : alpha * x;
  if (name == "elu") return x > 0 ? x : alpha * std::expm1(x);
  if (name == "selu") return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
  if (name == "gelu_erf") return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  if (name == "gelu_tanh") return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "hardswish") return x * clamp(x / 6 + 0.5, 0, 1);
  if (name == "hardsigmoid") return clamp(x / 6 + 0.5, 0, 1);
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  if (name == "clip") return clamp(x, alpha, beta);
  if (name == "softplus") return alpha * x > beta ? x : std::log1p(std::exp(alpha * x)) / alpha;
  if (name == "mish") return x * std::tanh(std::log1p(std::exp(x)));
  if (name == "softsign") return x / (1 + std::fabs(x));
  if (name == "abs") return std::fabs(x);
  if (name == "neg") return -x;
  if (name == "exp") return std::exp(x);
  if (name == "log") return std::log(x);
  if (name == "sqrt") return std::sqrt(x);
  if (name == "rsqrt") return 1 / std::sqrt(x);
  if (name == "reciprocal") return 1 / x;
  if (name == "square") return x * x;
  if (name == "sin") return std::sin(x);
  if (name == "cos") return std::cos(x);
  if (name == "erf") return std::erf(x);
  if (name == "floor") return std::floor(x);
  if (name == "ceil") return std::ceil(x);
  if (name == "round") return std::nearbyint(x);
  if (name == "sign") return (x > 0) - (x < 0);
  if (name == "trunc") return std::trunc(x);
  if (name == "tan") return std::tan(x);
  if (name == "asin") return std::asin(x);
  if (name == "acos") return std::acos(x);
  if (name == "atan") return std::atan(x);
  if (name == "sinh") return std::sinh(x);
  if (name == "cosh") return std::cosh(x);
  if (name == "asinh") return std::asinh(x);
  if (name == "acosh") return std::acosh(x);
  if (name == "atanh") return std::atanh(x);
  if (name == "celu") return x > 0 ? x : alpha * std::expm1(x / alpha);
  if (name == "threshold") return x <= alpha ? beta : x;
  if (name == "isnan") return std::isnan(x);
  if (name == "isinf") return std::isinf(x);
  if (name == "logical_not") return x == 0;
  if (name == "bitwise_not") return -x - 1;
  std::fprintf(stderr, "unary function %s has no reference\n", name.c_str());
  end_test();
}

// Whether a unary op takes the dtype.
inline bool is_defined_on(const std::string& name, DType dtype) {
  const UnaryFunction& function = *find_unary_function(name);
  return is_floating(dtype) ? !function.is(unary::kBits) : function.is(unary::kIntegers);
}

// Where the function is defined and not steep.
inline std::pair<double, double> domain_of(const std::string& name) {
  if (name == "log" || name == "sqrt" || name == "rsqrt") return {0.1, 3};
  if (name == "asin" || name == "acos" || name == "atanh") return {-0.9, 0.9};
  if (name == "acosh") return {1.1, 3};
  if (name == "tan") return {-1.2, 1.2};
  return {-3, 3};
}

// Attributes that an op needs or that tell its parameters apart.
inline const char* attributes_of(const std::string& name) {
  return name == "clip" ? "min=-1 max=2" : name == "threshold" ? "threshold=0.5 value=-7" : "";
}

inline double binary_reference(const std::string& name, double x, double y) {
  if (name == "add") return x + y;
  if (name == "sub") return x - y;
  if (name == "mul") return x * y;
  if (name == "div") return x / y;
  if (name == "maximum") return std::max(x, y);
  if (name == "minimum") return std::min(x, y);
  if (name == "pow") return std::pow(x, y);
  if (name == "eq") return x == y;
  if (name == "ne") return x != y;
  if (name == "lt") return x < y;
  if (name == "le") return x <= y;
  if (name == "gt") return x > y;
  if (name == "ge") return x >= y;
  if (name == "logical_and") return x != 0 && y != 0;
  if (name == "logical_or") return x != 0 || y != 0;
  if (name == "logical_xor") return (x != 0) != (y != 0);
  if (name == "fmod") return y == 0 ? x : std::fmod(x, y);
  if (name == "remainder") return y == 0 ? x : x - std::floor(x / y) * y;
  if (name == "bitwise_and") return double(int64_t(x) & int64_t(y));
  if (name == "bitwise_or") return double(int64_t(x) | int64_t(y));
  if (name == "bitwise_xor") return double(int64_t(x) ^ int64_t(y));
  if (name == "bitwise_left_shift") return y < 0 || y > 63 ? 0 : std::ldexp(x, int(y));
  if (name == "bitwise_right_shift") return std::floor(std::ldexp(x, y < 0 || y > 63 ? -63 : -int(y)));
  std::fprintf(stderr, "binary function %s has no reference\n", name.c_str());
  end_test();
}

// The element that numpy broadcasting puts at an index of the result.
inline double broadcast_at(const Input& input, const Dims& index) {
  Dims own;
  const int rank = input.desc.rank(), added = index.size() - rank;
  for (int d = 0; d < rank; ++d) own.push_back(input.desc.shape[d] == 1 ? 0 : index[added + d]);
  return input.values[size_t(linear(input.desc.shape, own))];
}

}  // namespace pl::host_testing
