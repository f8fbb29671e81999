// Elementwise functions of one tensor: activations and mathematics.  The list is in activation.cpp.
#include <cmath>
#include <limits>

#include "ops/activation.h"
#include "ops/gradient.h"

namespace pl {
namespace {

void check_dtypes(const Op& op, const UnaryFunction& function) {
  if (!function.integers) return check_float(op, 0);
  if (std::string_view(function.name) == "logical_not") return;  // any dtype
  check_dtype(op, 0, {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32, DType::s64});
}

// Sets the canonical function, alpha and beta, whatever the op calls its parameters.
void infer(Op& op) {
  const std::string& name = op.schema->name;
  double alpha = 0, beta = 0;
  if (name == "leaky_relu") {
    check_not_nan(op, "negative_slope");
    alpha = op.attributes.number("negative_slope");
  } else if (name == "elu") {
    check_not_nan(op, "alpha");
    alpha = op.attributes.number("alpha");
  } else if (name == "clip") {
    check_not_nan(op, "min");
    check_not_nan(op, "max");
    constexpr double infinity = std::numeric_limits<double>::infinity();
    alpha = op.attributes.is_none("min") ? -infinity : op.attributes.number("min");
    beta = op.attributes.is_none("max") ? infinity : op.attributes.number("max");
  } else if (name == "softplus") {
    check_finite(op, "beta");
    check_not_nan(op, "threshold");
    alpha = op.attributes.number("beta");
    beta = op.attributes.number("threshold");
    check(op, alpha != 0, Code::invalid_argument, "beta is 0, expected another number");
  } else if (name == "celu") {
    check_finite(op, "alpha");
    alpha = op.attributes.number("alpha");
    check(op, alpha != 0, Code::invalid_argument, "alpha is 0, expected another number");
  } else if (name == "threshold") {
    check_not_nan(op, "threshold");
    alpha = op.attributes.number("threshold");
    beta = op.attributes.number("value");
  } else if (name == "gelu") {
    const bool tanh = op.attributes.text("approximate") == "tanh";
    op.attributes.set("function", std::string(tanh ? "gelu_tanh" : "gelu_erf"));
  }
  op.attributes.set("alpha", alpha);
  op.attributes.set("beta", beta);
  const UnaryFunction* function = find_unary_function(op.attributes.text("function"));
  check(op, function != nullptr, Code::internal, "function ", op.attributes.text("function"), " is not listed");
  check_dtypes(op, *function);
  add_output(op, function->activation ? op.in(0).dtype : DType::boolean, op.in(0).shape);
}

Schema unary(const char* name, const char* title, const char* source = nullptr) {
  const UnaryFunction* function = find_unary_function(name);
  require(function != nullptr, Code::internal, "unary op ", name, " is not in the list of functions");
  const char* dtypes = !function->integers    ? "f32, f16 or bf16"
                       : function->activation ? "any dtype but bool"
                                              : "any dtype";
  Schema schema(name, "unary",
                concat(title, ", element by element.\n\ny = ", function->formula, "\n\nReturns the shape of x",
                       function->activation ? " and its dtype" : ", as bool",
                       ".\n\nSource: ", source ? source : "semantics of torch", "."));
  schema.constant("function", std::string(function->name)).tensor("x", concat("any shape, ", dtypes));
  schema.infer = infer;
  if (function->activation)
    schema.gradient = [](Derivation& d) {
      const Attributes& a = d.op().attributes;
      const std::string& name = a.text("function");
      const std::string of_result = slope_by_result(name, a.number("alpha"));
      // By the result where that serves: then the argument need not be kept, and may be fused away.
      const bool by_result = !of_result.empty() && name != "abs" && name != "clip";
      d.give(0,
             d.pointwise(by_result ? of_result : slope_by_argument(name),
                         {by_result ? d.output() : d.input(0), d.gradient()}, {a.number("alpha"), a.number("beta")}));
    };
  return schema;
}

Schema leaky_relu() {
  return unary("leaky_relu", "Rectifier with a slope below zero",
               "A. Maas et al., Rectifier nonlinearities improve "
               "neural network acoustic models, ICML 2013; alpha is negative_slope")
      .attribute("negative_slope", AttributeType::number, 0.01, "factor of negative values");
}

Schema elu() {
  return unary("elu", "Exponential linear unit", "D. Clevert et al., arXiv 1511.07289")
      .attribute("alpha", AttributeType::number, 1.0, "limit at minus infinity, negated");
}

Schema gelu() {
  Schema schema = unary("gelu", "Gaussian error linear unit",
                        "D. Hendrycks, K. Gimpel, arXiv 1606.08415; with approximate=\"tanh\" their approximation "
                        "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))");
  return schema.attribute("approximate", AttributeType::string, std::string("none"), "\"none\" or \"tanh\"",
                          {"none", "tanh"});
}

Schema clip() {
  return unary("clip", "Values limited to a range",
               "semantics of torch.clip: with min > max the result is max; "
               "alpha is min, beta is max")
      .attribute("min", AttributeType::number, None{}, "smallest result; None: no limit")
      .attribute("max", AttributeType::number, None{}, "largest result; None: no limit");
}

Schema softplus() {
  return unary("softplus", "Smooth rectifier",
               "semantics of torch.nn.functional.softplus; alpha stands for the "
               "parameter beta, beta for threshold")
      .attribute("beta", AttributeType::number, 1.0, "sharpness, not 0")
      .attribute("threshold", AttributeType::number, 20.0, "above it the function is x itself");
}

Schema celu() {
  return unary("celu", "Continuously differentiable exponential linear unit", "J. Barron, arXiv 1704.07483")
      .attribute("alpha", AttributeType::number, 1.0, "limit at minus infinity, negated; not 0");
}

Schema threshold() {
  return unary("threshold", "Values at or below a threshold replaced",
               "semantics of torch.nn.functional.threshold; alpha is threshold, beta is value")
      .required("threshold", AttributeType::number, "the largest x that is replaced")
      .required("value", AttributeType::number, "what replaces it");
}

PL_REGISTER_OP(leaky_relu);
PL_REGISTER_OP(elu);
PL_REGISTER_OP(gelu);
PL_REGISTER_OP(clip);
PL_REGISTER_OP(softplus);
PL_REGISTER_OP(celu);
PL_REGISTER_OP(threshold);
PL_REGISTER_OP([] { return unary("relu", "Rectifier"); });
PL_REGISTER_OP([] {
  return unary("relu6", "Rectifier limited to 6",
               "A. Krizhevsky, Convolutional deep belief "
               "networks on CIFAR-10, 2010");
});
PL_REGISTER_OP([] { return unary("selu", "Scaled exponential linear unit", "G. Klambauer et al., arXiv 1706.02515"); });
PL_REGISTER_OP([] { return unary("silu", "Sigmoid linear unit (swish)", "S. Elfwing et al., arXiv 1702.03118"); });
PL_REGISTER_OP([] { return unary("hardswish", "Piecewise swish", "A. Howard et al., arXiv 1905.02244"); });
PL_REGISTER_OP([] { return unary("hardsigmoid", "Piecewise linear sigmoid", "A. Howard et al., arXiv 1905.02244"); });
PL_REGISTER_OP([] { return unary("sigmoid", "Logistic function"); });
PL_REGISTER_OP([] { return unary("tanh", "Hyperbolic tangent"); });
PL_REGISTER_OP([] { return unary("mish", "Mish", "D. Misra, arXiv 1908.08681"); });
PL_REGISTER_OP([] { return unary("softsign", "Softsign"); });
PL_REGISTER_OP([] { return unary("abs", "Absolute value"); });
PL_REGISTER_OP([] { return unary("neg", "Negation (integers wrap around)"); });
PL_REGISTER_OP([] { return unary("exp", "Exponential"); });
PL_REGISTER_OP([] { return unary("log", "Natural logarithm"); });
PL_REGISTER_OP([] { return unary("sqrt", "Square root"); });
PL_REGISTER_OP([] { return unary("rsqrt", "Reciprocal of the square root"); });
PL_REGISTER_OP([] { return unary("reciprocal", "Reciprocal"); });
PL_REGISTER_OP([] { return unary("square", "Square (integers wrap around)"); });
PL_REGISTER_OP([] { return unary("sin", "Sine of an angle in radians"); });
PL_REGISTER_OP([] { return unary("cos", "Cosine of an angle in radians"); });
PL_REGISTER_OP([] { return unary("erf", "Error function"); });
PL_REGISTER_OP([] { return unary("floor", "Rounded down"); });
PL_REGISTER_OP([] { return unary("ceil", "Rounded up"); });
PL_REGISTER_OP([] { return unary("round", "Rounded to the nearest integer"); });
PL_REGISTER_OP([] { return unary("trunc", "Rounded toward zero"); });
PL_REGISTER_OP([] { return unary("sign", "Sign"); });
PL_REGISTER_OP([] { return unary("tan", "Tangent of an angle in radians"); });
PL_REGISTER_OP([] { return unary("asin", "Arcsine in radians"); });
PL_REGISTER_OP([] { return unary("acos", "Arccosine in radians"); });
PL_REGISTER_OP([] { return unary("atan", "Arctangent in radians"); });
PL_REGISTER_OP([] { return unary("sinh", "Hyperbolic sine"); });
PL_REGISTER_OP([] { return unary("cosh", "Hyperbolic cosine"); });
PL_REGISTER_OP([] { return unary("asinh", "Inverse hyperbolic sine"); });
PL_REGISTER_OP([] { return unary("acosh", "Inverse hyperbolic cosine"); });
PL_REGISTER_OP([] { return unary("atanh", "Inverse hyperbolic tangent"); });
PL_REGISTER_OP([] { return unary("logical_not", "Logical negation"); });
PL_REGISTER_OP([] { return unary("isnan", "Whether values are NaN"); });
PL_REGISTER_OP([] { return unary("isinf", "Whether values are infinite"); });

}  // namespace
}  // namespace pl
