// The elementwise functions of one argument: the kind `unary`, and the `activation` that other ops apply to
// their result.  One list, so that both know the same names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace pl {

struct UnaryFunction {
  const char* name;     // "leaky_relu"
  const char* formula;  // of x, with alpha and beta: "max(x, 0) + alpha * min(x, 0)"
  double alpha = 0;     // defaults of the function's parameters; 0 where it has none
  double beta = 0;
  bool integers = false;   // also defined on integer dtypes
  bool activation = true;  // false: not offered as `activation` (its result is of another dtype)
};

const std::vector<UnaryFunction>& unary_functions();
// By name; "gelu" is gelu_erf.  Null if there is none.
const UnaryFunction* find_unary_function(std::string_view name);

// The derivative of a unary function times x1, the gradient that arrives, as expressions of the op `pointwise`, with
// the function's alpha and beta as s0 and s1.  slope_by_argument: x0 is the function's argument; empty for functions
// that have no derivative.  slope_by_result: x0 is its result; empty where that does not tell the derivative.
std::string slope_by_argument(std::string_view function);
std::string slope_by_result(std::string_view function, double alpha);

// The parameters `activation`, `activation_alpha` and `activation_beta`.  They are two calls because other
// parameters (residual) stand between them in signatures.
Schema& add_activation(Schema& schema);
Schema& add_activation_parameters(Schema& schema);
// Makes them canonical: activation None or a name of unary_functions(), alpha and beta floats (the function's own
// defaults where they were None, 0 without an activation).  `result` is the dtype the activation works on.
void infer_activation(Op& op, DType result);

}  // namespace pl
