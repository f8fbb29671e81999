#include "providers/opencl/program/epilogue.h"

#include <algorithm>

namespace pl::opencl {

namespace {

using Step = PostOps::const_iterator;

// The next step that reads an input; the list's end if there is none.
Step next_operand(Step from, Step end) {
  return std::find_if(from, end, [](const PostOp& step) { return step.reads_input(); });
}

// Steps of x as a macro's body.
std::string applied(Step first, Step last) {
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
  Step from = list.begin();
  const char* const places[] = {"BEFORE_SUM(T, x)", "BETWEEN(T, x)"};
  const char* const joined[] = {"JOIN_RES(a, b)", "JOIN_MORE(a, b)"};
  for (int i = 0; i < 2; ++i) {
    const Step operand = next_operand(from, list.end());
    if (operand == list.end()) break;
    if (operand != from) source.define(places[i], applied(from, operand));
    if (operand->kind == PostOp::Kind::multiply) source.define(joined[i], "((a) * (b))");
    // Kernels that add a residual to their sums at once do not, then.
    if (i == 0 && (operand != from || operand->kind == PostOp::Kind::multiply)) source.define("JOINS_LATE", 1);
    from = operand + 1;
  }
  if (from != list.end()) source.define("AFTER_SUM(T, x)", applied(from, list.end()));
}

int operand_count(const Op& op) {
  const PostOps& list = post_ops_of(op);
  return int(std::count_if(list.begin(), list.end(), [](const PostOp& step) { return step.reads_input(); }));
}

bool accept_post_ops(const Op& op, CandidateList& out) {
  if (operand_count(op) <= 2) return true;
  out.refuse("opencl", concat(op.schema->name, ": post_ops is ", to_text(post_ops_of(op)),
                              ", expected at most two inputs that are added or multiplied by"));
  return false;
}

void place_operands(const Op& op, Candidate& candidate) {
  for (const PostOp& step : post_ops_of(op)) {
    if (!step.reads_input()) continue;
    const int input = operand_of(*op.schema, step);
    candidate.inputs[size_t(input)] = candidate.outputs[0];
    candidate.in_place |= 1u << input;  // who writes an element of the result reads this one's just before
  }
}

void define_operands(KernelSource& source, const Op& op) {
  define_post_ops(source, op);
  const char* const names[] = {"RES_DTYPE", "MORE_DTYPE"};
  int known = 0;
  for (const PostOp& step : post_ops_of(op))
    if (step.reads_input()) source.define(names[known++], name_of(op.in(operand_of(*op.schema, step)).dtype));
}

void pass_operands(Launch& launch, const Op& op) {
  for (const PostOp& step : post_ops_of(op))
    if (step.reads_input()) launch.input(operand_of(*op.schema, step));
}

bool short_epilogue(const Op& op) {
  const PostOps& list = post_ops_of(op);
  return list.size() <= 2 && std::all_of(list.begin(), list.end(), [](const PostOp& step) {
           if (step.kind != PostOp::Kind::function) return true;
           return step.name == "relu" || step.name == "relu6" || step.name == "clip" || step.name == "leaky_relu";
         });
}

void Epilogue::read_operands(const Op& op, const std::function<Addressing(int)>& at) {
  for (const PostOp& step : post_ops_of(op)) {
    if (!step.reads_input()) continue;
    const int input = operand_of(*op.schema, step);
    (first < 0 ? first : last) = input;
    (last < 0 ? first_at : last_at) = at(input);
  }
}

void Epilogue::define(KernelSource& source, const Op& op) const {
  define_post_ops(source, op);
  if (bias >= 0) source.tensor("BIAS", bias_desc);
  if (first >= 0) source.tensor("RES", first_at);
  if (last >= 0) source.tensor("MORE", last_at);
}

void Epilogue::pass(Launch& launch) const {
  if (bias >= 0) launch.input(bias, "BIAS");
  if (first >= 0) launch.input(first, "RES");
  if (last >= 0) launch.input(last, "MORE");
}

}  // namespace pl::opencl
