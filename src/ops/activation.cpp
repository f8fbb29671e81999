#include "ops/activation.h"

#include <cmath>
#include <limits>

namespace pl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

const std::vector<UnaryFunction>& unary_functions() {
  static const std::vector<UnaryFunction> functions = {
      {"relu", "max(x, 0)", 0, 0, true},
      {"relu6", "min(max(x, 0), 6)", 0, 0, true},
      {"leaky_relu", "x if x > 0 else alpha * x", 0.01},
      {"elu", "x if x > 0 else alpha * (exp(x) - 1)", 1},
      {"selu", "1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (exp(x) - 1))"},
      {"gelu_erf", "x / 2 * (1 + erf(x / sqrt(2)))"},
      {"gelu_tanh", "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))"},
      {"silu", "x / (1 + exp(-x))"},
      {"hardswish", "x * min(max(x / 6 + 1/2, 0), 1)"},
      {"hardsigmoid", "min(max(x / 6 + 1/2, 0), 1)"},
      {"sigmoid", "1 / (1 + exp(-x))"},
      {"tanh", "tanh(x)"},
      {"clip", "min(max(x, alpha), beta)", -kInfinity, kInfinity, true},
      {"softplus", "x if alpha * x > beta else log(1 + exp(alpha * x)) / alpha", 1, 20},
      {"mish", "x * tanh(log(1 + exp(x)))"},
      {"softsign", "x / (1 + |x|)"},
      {"abs", "|x|", 0, 0, true},
      {"neg", "-x", 0, 0, true},
      {"exp", "exp(x)"},
      {"log", "ln(x)"},
      {"sqrt", "sqrt(x)"},
      {"rsqrt", "1 / sqrt(x)"},
      {"reciprocal", "1 / x"},
      {"square", "x * x", 0, 0, true},
      {"sin", "sin(x)"},
      {"cos", "cos(x)"},
      {"erf", "erf(x) = 2 / sqrt(pi) * integral from 0 to x of exp(-t^2) dt"},
      {"floor", "the largest integer not above x", 0, 0, true},
      {"ceil", "the smallest integer not below x", 0, 0, true},
      {"round", "the nearest integer, halves to the even one", 0, 0, true},
      {"sign", "-1, 0 or 1; NaN for NaN", 0, 0, true},
      {"trunc", "the nearest integer toward zero", 0, 0, true},
      {"tan", "tan(x)"},
      {"asin", "arcsin(x), in [-pi/2, pi/2]"},
      {"acos", "arccos(x), in [0, pi]"},
      {"atan", "arctan(x), in [-pi/2, pi/2]"},
      {"sinh", "(exp(x) - exp(-x)) / 2"},
      {"cosh", "(exp(x) + exp(-x)) / 2"},
      {"asinh", "ln(x + sqrt(x^2 + 1))"},
      {"acosh", "ln(x + sqrt(x^2 - 1))"},
      {"atanh", "ln((1 + x) / (1 - x)) / 2"},
      {"celu", "x if x > 0 else alpha * (exp(x / alpha) - 1)", 1},
      {"threshold", "beta if x <= alpha else x"},
      {"logical_not", "x == 0", 0, 0, true, false},
      {"isnan", "x != x", 0, 0, false, false},
      {"isinf", "|x| == infinity", 0, 0, false, false},
  };
  return functions;
}

const UnaryFunction* find_unary_function(std::string_view name) {
  if (name == "gelu") name = "gelu_erf";
  for (const UnaryFunction& function : unary_functions())
    if (name == function.name) return &function;
  return nullptr;
}

Schema& add_activation(Schema& schema) {
  std::vector<std::string> choices = {"gelu"};
  for (const UnaryFunction& function : unary_functions())
    if (function.activation) choices.push_back(function.name);
  return schema.attribute("activation", AttributeType::string, None{},
                          "function applied to the result: the name of a unary op, or None; gelu is gelu_erf",
                          std::move(choices));
}

Schema& add_activation_parameters(Schema& schema) {
  return schema
      .attribute("activation_alpha", AttributeType::number, None{},
                 "first parameter of the activation (slope of leaky_relu, alpha of elu, minimum of clip, beta of "
                 "softplus); None: the default of that op")
      .attribute("activation_beta", AttributeType::number, None{},
                 "second parameter of the activation (maximum of clip, threshold of softplus); None: the default of "
                 "that op");
}

void infer_activation(Op& op, DType result) {
  check_not_nan(op, "activation_alpha");
  check_not_nan(op, "activation_beta");
  double alpha = 0, beta = 0;
  if (!op.attributes.is_none("activation")) {
    const UnaryFunction* function = find_unary_function(op.attributes.text("activation"));
    check(op, function != nullptr, Code::internal, "activation ", op.attributes.text("activation"), " is not listed");
    check(op, is_floating(result) || (function->integers && result != DType::boolean), Code::unsupported, "activation ",
          function->name, " is not defined on the result's dtype ", name_of(result));
    op.attributes.set("activation", std::string(function->name));
    alpha = function->alpha;
    beta = function->beta;
  }
  if (op.attributes.is_none("activation_alpha")) op.attributes.set("activation_alpha", alpha);
  if (op.attributes.is_none("activation_beta")) op.attributes.set("activation_beta", beta);
}

}  // namespace pl
