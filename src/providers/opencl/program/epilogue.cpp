#include "providers/opencl/program/epilogue.h"

#include <algorithm>

namespace pl::opencl {

namespace {

// Where in the list an input is added; its end if none is.
PostOps::const_iterator sum_of(const PostOps& list) {
  return std::find_if(list.begin(), list.end(), [](const PostOp& step) { return step.kind == PostOp::Kind::add; });
}

// Steps of x as a macro's body.
std::string applied(PostOps::const_iterator first, PostOps::const_iterator last) {
  std::string text = "(x)";
  for (; first != last; ++first) {
    if (first->kind == PostOp::Kind::scale)
      text = concat("(", text, " * ", float_literal(first->alpha()), ")");
    else
      text = concat("(UNARY_", first->name, "(T, ", text, ", ", float_literal(first->alpha()), ", ",
                    float_literal(first->beta()), "))");
  }
  return text;
}

}  // namespace

void define_post_ops(KernelSource& source, const Op& op) {
  const PostOps& list = post_ops_of(op);
  const auto sum = sum_of(list), behind = sum == list.end() ? list.begin() : sum + 1;
  if (sum != list.end() && sum != list.begin()) source.define("BEFORE_SUM(T, x)", applied(list.begin(), sum));
  if (behind != list.end()) source.define("AFTER_SUM(T, x)", applied(behind, list.end()));
}

bool has_steps_before_sum(const Op& op) {
  const PostOps& list = post_ops_of(op);
  const auto sum = sum_of(list);
  return sum != list.end() && sum != list.begin();
}

bool accept_post_ops(const Op& op, CandidateList& out) {
  const PostOps& list = post_ops_of(op);
  const auto inputs = std::count_if(list.begin(), list.end(), [](const PostOp& step) { return step.reads_input(); });
  if (inputs <= 1 && inputs == (sum_of(list) != list.end())) return true;
  out.refuse("opencl", concat(op.schema->name, ": post_ops is ", to_text(list), ", expected one input that is added"));
  return false;
}

int added_input(const Op& op) {
  const PostOps& list = post_ops_of(op);
  const auto sum = sum_of(list);
  return sum == list.end() ? -1 : operand_of(*op.schema, *sum);
}

void place_operands(const Op& op, Candidate& candidate) {
  for (const PostOp& step : post_ops_of(op))
    if (step.reads_input()) candidate.inputs[size_t(operand_of(*op.schema, step))] = candidate.outputs[0];
}

bool short_epilogue(const Op& op) {
  const PostOps& list = post_ops_of(op);
  return list.size() <= 2 && std::all_of(list.begin(), list.end(), [](const PostOp& step) {
           if (step.kind != PostOp::Kind::function) return true;
           return step.name == "relu" || step.name == "relu6" || step.name == "clip" || step.name == "leaky_relu";
         });
}

void Epilogue::define(KernelSource& source, const Op& op) const {
  define_post_ops(source, op);
  if (bias >= 0) source.tensor("BIAS", bias_desc);
  if (residual >= 0) source.tensor("RES", residual_at);
}

void Epilogue::pass(Launch& launch) const {
  if (bias >= 0) launch.input(bias, "BIAS");
  if (residual >= 0) launch.input(residual, "RES");
}

}  // namespace pl::opencl
