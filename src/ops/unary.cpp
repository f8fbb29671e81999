// Elementwise functions of one tensor: activations and mathematics.  The list is in activation.cpp.
#include <cmath>
#include <limits>

#include "ops/activation.h"
#include "ops/gradient.h"

namespace pl {
namespace {

// Sets the canonical function, alpha and beta, whatever the op calls its parameters.
void infer_unary(Op& op) {
  const UnaryFunction& function = *find_unary_function(op.schema->name);
  const auto parameter = [&](const Key<double>* key, double none) {
    return key ? op.attributes.find(*key).value_or(none) : none;
  };
  const double alpha = parameter(function.alpha_key, function.alpha);
  const double beta = parameter(function.beta_key, function.beta);
  if (function.is(unary::kDivides)) {
    check_finite(op, *function.alpha_key);
    check(op, alpha != 0, Code::invalid_argument, *function.alpha_key, " is 0, expected another number");
  } else if (function.alpha_key) {
    check_not_nan(op, *function.alpha_key);
  }
  if (function.beta_key && op.schema->name != "threshold") check_not_nan(op, *function.beta_key);
  if (const std::string* form = op.attributes.find(attr::approximate))  // of gelu
    op.attributes.set(attr::function, *form == "tanh" ? "gelu_tanh" : "gelu_erf");
  if (function.is(unary::kBits) && op.in(0).dtype == DType::boolean)  // of one bit
    op.attributes.set(attr::function, std::string("logical_not"));
  op.attributes.set(attr::alpha, alpha);
  op.attributes.set(attr::beta, beta);
  add_output(op);
}

Schema unary_op(const char* name, const char* title, const char* source = nullptr) {
  const UnaryFunction* function = find_unary_function(name);
  require(function != nullptr, Code::internal, "unary op ", name, " is not in the list of functions");
  const bool numeric = !function->is(unary::kBoolean), integers = function->is(unary::kIntegers);
  const bool bits = function->is(unary::kBits);
  const char* taken = bits        ? "integers or bool"
                      : !integers ? "f32, f16 or bf16"
                      : numeric   ? "any dtype but bool"
                                  : "any dtype";
  Schema schema(
      name, "unary",
      concat(title, ", element by element.\n\ny = ", function->formula, "\n\nReturns the shape of x",
             numeric ? " and its dtype" : ", as bool", ".\n\nSource: ", source ? source : "semantics of torch", "."));
  schema.constant(attr::function, std::string(function->name))
      .tensor("x", concat("any shape, ", taken))
      .of(bits        ? dtypes::bits
          : !integers ? dtypes::floats
          : numeric   ? dtypes::numbers
                      : dtypes::any)
      .by_element();
  if (numeric)
    schema.result(Result("y").like("x").shaped("x").over("x"));
  else
    schema.result(Result("y").of(DType::boolean).shaped("x").over("x"));
  schema.idempotent = function->is(unary::kIdempotent);
  schema.keeps_finite = function->is(unary::kFinite);
  schema.applies_function = true;
  schema.infer = infer_unary;
  if (function->expression || bits)
    schema.expression = [](const Op& op) {
      const Attributes& a = op.attributes;
      return expression_of(a[attr::function], a[attr::alpha], a[attr::beta]);
    };
  if (numeric && !bits)
    schema.gradient = [](Derivation& d) {
      const Attributes& a = d.op().attributes;
      const std::string& name = a[attr::function];
      const std::string of_result = slope_by_result(name, a[attr::alpha]);
      // By the result where that serves: then the argument need not be kept, and may be fused away.
      const bool by_result = !of_result.empty() && name != "abs" && name != "clip";
      d.give(0, d.pointwise(by_result ? of_result : slope_by_argument(name),
                            {by_result ? d.output() : d.input(0), d.gradient()}, {a[attr::alpha], a[attr::beta]}));
    };
  return schema;
}

Schema leaky_relu() {
  return unary_op("leaky_relu", "Rectifier with a slope below zero",
                  "A. Maas et al., Rectifier nonlinearities improve "
                  "neural network acoustic models, ICML 2013; alpha is negative_slope")
      .attribute(attr::negative_slope, 0.01, "factor of negative values");
}

Schema elu() {
  return unary_op("elu", "Exponential linear unit", "D. Clevert et al., arXiv 1511.07289")
      .attribute(attr::alpha, 1.0, "limit at minus infinity, negated");
}

Schema gelu() {
  Schema schema = unary_op("gelu", "Gaussian error linear unit",
                           "D. Hendrycks, K. Gimpel, arXiv 1606.08415; with approximate=\"tanh\" their approximation "
                           "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))");
  return schema.attribute(attr::approximate, std::string("none"), "\"none\" or \"tanh\"", {"none", "tanh"});
}

Schema clip() {
  return unary_op("clip", "Values limited to a range",
                  "semantics of torch.clip: with min > max the result is max; "
                  "alpha is min, beta is max")
      .attribute(attr::min, None{}, "smallest result; None: no limit")
      .attribute(attr::max, None{}, "largest result; None: no limit");
}

Schema softplus() {
  return unary_op("softplus", "Smooth rectifier",
                  "semantics of torch.nn.functional.softplus; alpha stands for the "
                  "parameter beta, beta for threshold")
      .attribute(attr::beta, 1.0, "sharpness, not 0")
      .attribute(attr::threshold, 20.0, "above it the function is x itself");
}

Schema celu() {
  return unary_op("celu", "Continuously differentiable exponential linear unit", "J. Barron, arXiv 1704.07483")
      .attribute(attr::alpha, 1.0, "limit at minus infinity, negated; not 0");
}

Schema threshold() {
  return unary_op("threshold", "Values at or below a threshold replaced",
                  "semantics of torch.nn.functional.threshold; alpha is threshold, beta is value")
      .required(attr::threshold, "the largest x that is replaced")
      .required(attr::value, "what replaces it");
}

PL_REGISTER_OP(leaky_relu);
PL_REGISTER_OP(elu);
PL_REGISTER_OP(gelu);
PL_REGISTER_OP(clip);
PL_REGISTER_OP(softplus);
PL_REGISTER_OP(celu);
PL_REGISTER_OP(threshold);
PL_REGISTER_OP([] { return unary_op("relu", "Rectifier"); });
PL_REGISTER_OP([] {
  return unary_op("relu6", "Rectifier limited to 6",
                  "A. Krizhevsky, Convolutional deep belief "
                  "networks on CIFAR-10, 2010");
});
PL_REGISTER_OP([] {
  return unary_op("selu", "Scaled exponential linear unit", "G. Klambauer et al., arXiv 1706.02515");
});
PL_REGISTER_OP([] { return unary_op("silu", "Sigmoid linear unit (swish)", "S. Elfwing et al., arXiv 1702.03118"); });
PL_REGISTER_OP([] { return unary_op("hardswish", "Piecewise swish", "A. Howard et al., arXiv 1905.02244"); });
PL_REGISTER_OP([] {
  return unary_op("hardsigmoid", "Piecewise linear sigmoid", "A. Howard et al., arXiv 1905.02244");
});
PL_REGISTER_OP([] { return unary_op("sigmoid", "Logistic function"); });
PL_REGISTER_OP([] { return unary_op("tanh", "Hyperbolic tangent"); });
PL_REGISTER_OP([] { return unary_op("mish", "Mish", "D. Misra, arXiv 1908.08681"); });
PL_REGISTER_OP([] { return unary_op("softsign", "Softsign"); });
PL_REGISTER_OP([] { return unary_op("abs", "Absolute value"); });
PL_REGISTER_OP([] { return unary_op("neg", "Negation (integers wrap around)"); });
PL_REGISTER_OP([] { return unary_op("exp", "Exponential"); });
PL_REGISTER_OP([] { return unary_op("log", "Natural logarithm"); });
PL_REGISTER_OP([] { return unary_op("sqrt", "Square root"); });
PL_REGISTER_OP([] { return unary_op("rsqrt", "Reciprocal of the square root"); });
PL_REGISTER_OP([] { return unary_op("reciprocal", "Reciprocal"); });
PL_REGISTER_OP([] { return unary_op("square", "Square (integers wrap around)"); });
PL_REGISTER_OP([] { return unary_op("sin", "Sine of an angle in radians"); });
PL_REGISTER_OP([] { return unary_op("cos", "Cosine of an angle in radians"); });
PL_REGISTER_OP([] { return unary_op("erf", "Error function"); });
PL_REGISTER_OP([] { return unary_op("floor", "Rounded down"); });
PL_REGISTER_OP([] { return unary_op("ceil", "Rounded up"); });
PL_REGISTER_OP([] { return unary_op("round", "Rounded to the nearest integer"); });
PL_REGISTER_OP([] { return unary_op("trunc", "Rounded toward zero"); });
PL_REGISTER_OP([] { return unary_op("sign", "Sign"); });
PL_REGISTER_OP([] { return unary_op("tan", "Tangent of an angle in radians"); });
PL_REGISTER_OP([] { return unary_op("asin", "Arcsine in radians"); });
PL_REGISTER_OP([] { return unary_op("acos", "Arccosine in radians"); });
PL_REGISTER_OP([] { return unary_op("atan", "Arctangent in radians"); });
PL_REGISTER_OP([] { return unary_op("sinh", "Hyperbolic sine"); });
PL_REGISTER_OP([] { return unary_op("cosh", "Hyperbolic cosine"); });
PL_REGISTER_OP([] { return unary_op("asinh", "Inverse hyperbolic sine"); });
PL_REGISTER_OP([] { return unary_op("acosh", "Inverse hyperbolic cosine"); });
PL_REGISTER_OP([] { return unary_op("atanh", "Inverse hyperbolic tangent"); });
PL_REGISTER_OP([] { return unary_op("logical_not", "Logical negation"); });
PL_REGISTER_OP([] { return unary_op("bitwise_not", "Every bit negated; of bool, logical negation"); });
PL_REGISTER_OP([] { return unary_op("isnan", "Whether values are NaN"); });
PL_REGISTER_OP([] { return unary_op("isinf", "Whether values are infinite"); });

}  // namespace
}  // namespace pl
