// Post-ops of an op: which ones a schema takes, the list of a call, and what all who read it ask of it.
//
// A call has one list, the attribute `post_ops`, complete once the op is made: functions by the names of
// unary_functions() with all their parameters, inputs by the names of the schema's operands.  `activation`, and an
// operand that is given without a list, are short for one: every operand that is added, then the function.  So are
// `low` and `high` where a schema has them: a clip.  They are read into the list here and nowhere else; Graph keeps
// nodes with the list alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace pl {

// ---- schemas ----

// States that an op takes post-ops: functions, scale, and operands, as PostOp::add("residual"), each an optional input.
// Adds the parameters `activation`, the operands, `activation_alpha`, `activation_beta` and `post_ops`.  The operands
// have the dtype of `like`, an input, and are batched where that is.
Schema& take_post_ops(Schema& schema, const std::vector<PostOp>& operands = {}, const std::string& like = "");
// The same of a gradient that needs to know which function was applied: `activation`, and its parameters.
Schema& take_activation(Schema& schema, std::string about);

// Before infer: makes `post_ops` of the op complete from what was given, in place of the short forms.
void complete_post_ops(Op& op);
// The function that `activation` and its parameters name, with all parameters; nothing where it is None.
std::optional<PostOp> activation_of(const Op& op);
// After infer: the shapes of the operands.
void check_operands(const Op& op);

// ---- lists ----

// Empty where there are none.
const PostOps& post_ops_of(const Attributes& attributes);
inline const PostOps& post_ops_of(const Op& op) { return post_ops_of(op.attributes); }
void set_post_ops(Attributes& attributes, PostOps list);  // an empty list: erases the attribute
// What was given, with the op's complete list in the place of short forms.
Attributes with_listed_post_ops(const Attributes& given, const Op& op);

bool takes_post_ops(const Schema& schema);
// Whether the schema has this step's input as an operand to be added or multiplied by; functions and scale need none.
bool takes_post_op(const Schema& schema, const PostOp& step);
int operand_of(const Schema& schema, const PostOp& step);  // the number of the step's input

bool reads_inputs(const PostOps& list);
// Whether every step adds an input: y + c may then be computed before them as well.
bool only_sums(const PostOps& list);
// Whether they give finite results for finite arguments.
bool keep_finite(const PostOps& list);

// The list that nearly all kernels take: an input is added, then a function applied; either may be missing.
struct SumThenFunction {
  int added = -1;                    // the number of the input
  const PostOp* function = nullptr;  // of the op's list

  bool is(const char* name) const { return function && function->name == name; }
};
// Nothing where the op's list is another one.
std::optional<SumThenFunction> sum_then_function(const Op& op);
// The list with one more function, before the sum.
struct FunctionSumFunction : SumThenFunction {
  const PostOp* before = nullptr;
};
std::optional<FunctionSumFunction> function_sum_function(const Op& op);
// "post_ops is relu, add(residual), expected a sum, then a function": for refusals.
std::string other_post_ops(const Op& op);

// ---- steps as ops ----

// The op that computes a step of x, or of x and the step's input.
struct StepCall {
  std::string op;
  Attributes attributes;
};
StepCall call_of(const PostOp& step);
// The function that a unary op computes, of its completed attributes.
PostOp function_of(const Op& unary);
// As an elementwise expression of `value` ("x0 + x1"), in the language of `pointwise`; without text where a step has no
// words there, or reads an input.
ElementExpression with_post_ops(const Op& op, const std::string& value);

}  // namespace pl
