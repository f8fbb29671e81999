// The elementwise functions of one argument: the kind `unary`, and those that other ops apply to their result as
// post-ops.  One list, so that both know the same names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"
#include "ops/pointwise.h"

namespace pl {

namespace unary {
// What holds of a function.
enum Traits : uint32_t {
  kIntegers = 1,    // also defined on integer dtypes
  kBoolean = 2,     // its result is bool, so that it is not offered as a post-op
  kPostOp = 4,      // the fast implementations of all providers apply it to results that they hold in registers
  kIdempotent = 8,  // f(f(x)) = f(x)
  kFinite = 16,     // finite where its argument is
  kDivides = 32,    // alpha must be finite and not 0
  kScales = 64,     // f(s x) = s f(x) for s > 0
  kBits = 128,      // of the bits of integers: not defined on floats, so that it is not offered as a post-op
};
}  // namespace unary

struct UnaryFunction {
  const char* name;     // "leaky_relu"
  const char* formula;  // of x, with alpha and beta: "max(x, 0) + alpha * min(x, 0)"
  // The same in the language of the op `pointwise`, with alpha and beta as s0 and s1; null where it has no words for
  // it in f32.
  const char* expression;
  uint32_t traits = 0;
  double alpha = 0;  // defaults of the function's parameters; 0 where it has none
  double beta = 0;
  const Key<double>* alpha_key = nullptr;  // what the op calls them; null: it has none
  const Key<double>* beta_key = nullptr;

  bool is(unary::Traits trait) const { return traits & trait; }
  bool is_post_op() const { return !is(unary::kBoolean) && !is(unary::kBits); }  // other ops apply it to their result
};

const std::vector<UnaryFunction>& unary_functions();
// By name; "gelu" is gelu_erf.  Null if there is none.
const UnaryFunction* find_unary_function(std::string_view name);

// The function as an expression of x0; without text where it has none.
ElementExpression expression_of(std::string_view function, double alpha, double beta);

// The derivative of a unary function times x1, the gradient that arrives, as expressions of the op `pointwise`, with
// the function's alpha and beta as s0 and s1.  slope_by_argument: x0 is the function's argument; empty for functions
// that have no derivative.  slope_by_result: x0 is its result; empty where that does not tell the derivative.
std::string slope_by_argument(std::string_view function);
std::string slope_by_result(std::string_view function, double alpha);
pointwise::Program slope_of(const PostOp& function);  // slope_by_argument as a program of x0 and x1

// The op that computes a unary function, and its attributes.
struct UnaryCall {
  std::string op;
  Attributes attributes;
};
UnaryCall unary_call(const std::string& function, double alpha, double beta);

}  // namespace pl
