#include "ops/post_ops.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/numbers.h"
#include "ops/activation.h"

namespace pl {
namespace {

// How many parameters a function has.
size_t parameter_count(const UnaryFunction& function) { return function.beta_key ? 2 : function.alpha_key ? 1 : 0; }

// "add(residual), multiply(gate)"
std::string text_of_operands(const Schema& schema) {
  std::string text;
  for (const PostOp& operand : schema.post_ops.operands) text += (text.empty() ? "" : ", ") + operand.str();
  return text;
}

// What a step may be, for messages.
std::string known_steps(const Schema& schema) {
  std::string text = text_of_operands(schema);
  text += text.empty() ? "scale(number)" : ", scale(number)";
  for (const UnaryFunction& function : unary_functions())
    if (function.is_post_op()) text += concat(", ", function.name);
  return text;
}

// `name`: what the call named the step: post_ops, or activation.
void check_floats(const Op& op, const PostOp& step, const char* name) {
  if (is_floating(op.in(0).dtype) || op.schema->post_ops.of_reals) return;
  fail(Code::unsupported, op.schema->name, ": ", op.schema->input_parameter(0).name, " has dtype ",
       name_of(op.in(0).dtype), ", expected one of ", dtypes::floats.str(), " with ", name, "=", step.str());
}

void complete_function(const Op& op, PostOp& step, const char* name) {
  const UnaryFunction* function = find_unary_function(step.name);
  if (!function || !function->is_post_op())
    check(op, false, Code::invalid_argument, name, " has ", step.name, ", expected ", known_steps(*op.schema));
  step.name = function->name;
  const size_t count = parameter_count(*function), given = step.parameters.size();
  if (given > count)
    check(op, false, Code::invalid_argument, name, " has ", step.str(), ", expected ",
          count ? concat("at most ", count, " numbers") : std::string("no numbers"), " behind ", function->name);
  if (std::any_of(step.parameters.begin(), step.parameters.end(), [](double number) { return std::isnan(number); }))
    check(op, false, Code::invalid_argument, name, " has ", step.str(), ", expected numbers");
  if (given < 1 && count > 0) step.parameters.push_back(function->alpha);
  if (given < 2 && count > 1) step.parameters.push_back(function->beta);
  if (function->is(unary::kDivides) && (!std::isfinite(step.alpha()) || step.alpha() == 0))
    check(op, false, Code::invalid_argument, name, " has ", step.str(), ", expected a finite number other than 0");
  if (!function->is(unary::kIntegers)) check_floats(op, step, name);
}

void complete_step(const Op& op, PostOp& step) {
  switch (step.kind) {
    case PostOp::Kind::function: return complete_function(op, step, "post_ops");
    case PostOp::Kind::scale:
      check(op, step.parameters.size() == 1 && std::isfinite(step.alpha()), Code::invalid_argument, "post_ops has ",
            step.str(), ", expected scale of one finite number");
      return check_floats(op, step, "post_ops");
    case PostOp::Kind::add:
    case PostOp::Kind::multiply: break;
  }
  if (!takes_post_op(*op.schema, step))
    check(op, false, Code::invalid_argument, "post_ops has ", step.str(), ", expected ", known_steps(*op.schema));
  check(op, op.has(operand_of(*op.schema, step)), Code::invalid_argument, step.name,
        " is missing, expected a tensor: post_ops has ", step.str());
}

// What `activation` and operands without a list are short for.
PostOps list_of_short_forms(const Op& op) {
  PostOps list;
  for (const PostOp& operand : op.schema->post_ops.operands)
    if (operand.kind == PostOp::Kind::add && op.has(operand_of(*op.schema, operand))) list.push_back(operand);
  if (const std::optional<PostOp> step = activation_of(op)) list.push_back(*step);
  const auto low = op.attributes.find(attr::low), high = op.attributes.find(attr::high);
  if (low || high) {
    PostOp step = PostOp::function("clip", {low.value_or(-kInfinity), high.value_or(kInfinity)});
    complete_function(op, step, "low or high");
    check(op, step.alpha() <= step.beta(), Code::invalid_argument, "low is ", step.alpha(), ", expected at most ",
          step.beta(), " (high)");
    list.push_back(step);
  }
  return list;
}

void erase_short_forms(Attributes& attributes) {
  attributes.erase(attr::activation);
  attributes.erase(attr::activation_alpha);
  attributes.erase(attr::activation_beta);
  attributes.erase(attr::low);
  attributes.erase(attr::high);
}

// `text` with the words x, s0 and s1 replaced.
std::string with_words(const std::string& text, const std::string& x, const std::string& s0, const std::string& s1) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  std::string result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && letter(text[end])) ++end;
    const std::string word = text.substr(i, std::max(end, i + 1) - i);
    result += word == "x" ? x : word == "s0" ? s0 : word == "s1" ? s1 : word;
    i += word.size();
  }
  return result;
}

std::vector<std::string> activation_choices() {
  std::vector<std::string> choices = {"gelu"};
  for (const UnaryFunction& function : unary_functions())
    if (function.is_post_op()) choices.push_back(function.name);
  return choices;
}

Schema& add_activation_parameters(Schema& schema) {
  return schema
      .attribute(attr::activation_alpha, None{},
                 "first parameter of the activation (slope of leaky_relu, alpha of elu, minimum of clip, beta of "
                 "softplus); None: the default of that op")
      .attribute(attr::activation_beta, None{},
                 "second parameter of the activation (maximum of clip, threshold of softplus); None: the default of "
                 "that op");
}

}  // namespace

Schema& take_activation(Schema& schema, std::string about) {
  return add_activation_parameters(schema.attribute(attr::activation, None{}, std::move(about), activation_choices()));
}

Schema& take_post_ops(Schema& schema, const std::vector<PostOp>& operands, const std::string& like) {
  schema.post_ops.taken = true;
  schema.post_ops.operands = operands;
  schema.attribute(attr::activation, None{},
                   operands.empty() ? "short for post_ops: a function applied to the result, the name of a unary op; "
                                      "gelu is gelu_erf"
                                    : "short for post_ops: a function applied to the result after what is added, the "
                                      "name of a unary op; gelu is gelu_erf",
                   activation_choices());
  const auto input = std::find_if(schema.parameters.begin(), schema.parameters.end(),
                                  [&](const Parameter& parameter) { return parameter.name == like; });
  const Batch batch = operands.empty() || input->batch == Batch::never ? Batch::never : Batch::always;
  for (const PostOp& operand : operands)
    schema
        .optional(operand.name,
                  operand.kind == PostOp::Kind::add
                      ? "the shape of the result; added to it, before the activation or where post_ops say"
                      : "the shape of the result, which is multiplied by it where post_ops say")
        .like(like)
        .batched(batch);
  add_activation_parameters(schema).attribute(
      attr::post_ops, None{},
      concat("what is done to the result, step by step: \"", operands.empty() ? "" : operands[0].str() + ", ",
             "clip(-1, 1), scale(0.5)\", or a list of such steps.  A step is ",
             operands.empty() ? "" : text_of_operands(schema) + ", ",
             "scale(number) or a unary op with its parameters.  None: ",
             operands.empty() ? "what activation says" : "what is added, then the activation"));
  return schema;
}

std::optional<PostOp> activation_of(const Op& op) {
  check_not_nan(op, attr::activation_alpha);
  check_not_nan(op, attr::activation_beta);
  const std::string* name = op.attributes.find(attr::activation);
  if (!name) return std::nullopt;
  const UnaryFunction* function = find_unary_function(*name);
  check(op, function != nullptr, Code::internal, "activation ", *name, " is not listed");
  PostOp step = PostOp::function(*name);
  if (function->alpha_key)
    step.parameters.push_back(op.attributes.find(attr::activation_alpha).value_or(function->alpha));
  if (function->beta_key) step.parameters.push_back(op.attributes.find(attr::activation_beta).value_or(function->beta));
  complete_function(op, step, "activation");
  return step;
}

void complete_post_ops(Op& op) {
  if (!op.schema->post_ops.taken) return;
  const PostOps* given = op.attributes.find(attr::post_ops);
  PostOps list;
  if (given) {
    for (const AttributeName& name :
         {AttributeName(attr::activation), AttributeName(attr::low), AttributeName(attr::high)})
      check(op, !op.attributes.has(name) || op.attributes.is_none(name), Code::invalid_argument, name,
            " is given, expected None: post_ops say what is applied");
    list = *given;
    for (PostOp& step : list) complete_step(op, step);
  } else {
    list = list_of_short_forms(op);
  }
  for (const PostOp& operand : op.schema->post_ops.operands) {
    const auto count = std::count(list.begin(), list.end(), operand);
    check(op, count <= 1, Code::invalid_argument, "post_ops have ", operand.str(), " ", count, " times, expected once");
    check(op, count == 1 || !op.has(operand_of(*op.schema, operand)), Code::invalid_argument, operand.name,
          " is given, expected post_ops with ", operand.str());
  }
  erase_short_forms(op.attributes);
  op.attributes.set(attr::post_ops, std::move(list));
}

void check_operands(const Op& op) {
  for (const PostOp& operand : op.schema->post_ops.operands)
    check_shape(op, operand_of(*op.schema, operand), op.out().shape, "the output's shape");
}

const PostOps& post_ops_of(const Attributes& attributes) {
  static const PostOps none;
  const PostOps* list = attributes.find(attr::post_ops);
  return list ? *list : none;
}

void set_post_ops(Attributes& attributes, PostOps list) {
  if (list.empty())
    attributes.erase(attr::post_ops);
  else
    attributes.set(attr::post_ops, std::move(list));
}

Attributes with_listed_post_ops(const Attributes& given, const Op& op) {
  if (!op.schema->post_ops.taken) return given;
  Attributes result = given;
  erase_short_forms(result);
  set_post_ops(result, post_ops_of(op));
  return result;
}

bool takes_post_ops(const Schema& schema) { return schema.post_ops.taken; }

bool takes_post_op(const Schema& schema, const PostOp& step) {
  const std::vector<PostOp>& operands = schema.post_ops.operands;
  if (!step.reads_input()) return schema.post_ops.taken;
  return std::find(operands.begin(), operands.end(), step) != operands.end();
}

int operand_of(const Schema& schema, const PostOp& step) { return schema.input_index(step.name); }

bool reads_inputs(const PostOps& list) {
  return std::any_of(list.begin(), list.end(), [](const PostOp& step) { return step.reads_input(); });
}

bool only_sums(const PostOps& list) {
  return std::all_of(list.begin(), list.end(), [](const PostOp& step) { return step.kind == PostOp::Kind::add; });
}

bool keep_finite(const PostOps& list) {
  return std::all_of(list.begin(), list.end(), [](const PostOp& step) {
    return step.kind != PostOp::Kind::function || find_unary_function(step.name)->is(unary::kFinite);
  });
}

std::optional<SumThenFunction> sum_then_function(const Op& op) {
  SumThenFunction form;
  for (const PostOp& step : post_ops_of(op)) {
    if (form.function) return std::nullopt;
    if (step.kind == PostOp::Kind::function)
      form.function = &step;
    else if (step.kind == PostOp::Kind::add && form.added < 0)
      form.added = operand_of(*op.schema, step);
    else
      return std::nullopt;
  }
  return form;
}

std::optional<FunctionSumFunction> function_sum_function(const Op& op) {
  FunctionSumFunction form;
  for (const PostOp& step : post_ops_of(op)) {
    if (step.kind == PostOp::Kind::function && !form.function) {
      form.function = &step;
    } else if (step.kind == PostOp::Kind::add && form.added < 0 && !form.before) {
      form.added = operand_of(*op.schema, step);
      std::swap(form.before, form.function);
    } else {
      return std::nullopt;
    }
  }
  return form;
}

std::string other_post_ops(const Op& op) {
  return concat("post_ops is ", to_text(post_ops_of(op)), ", expected an input that is added, then a function");
}

StepCall call_of(const PostOp& step) {
  switch (step.kind) {
    case PostOp::Kind::add: return {"add", {}};
    case PostOp::Kind::multiply: return {"mul", {}};
    case PostOp::Kind::scale:
      return {"pointwise", Attributes{{attr::expressions, "y0 = x0 * s0"}, {attr::scalars, Floats{step.alpha()}}}};
    case PostOp::Kind::function: break;
  }
  UnaryCall call = unary_call(step.name, step.alpha(), step.beta());
  return {call.op, std::move(call.attributes)};
}

PostOp function_of(const Op& unary) {
  PostOp step = PostOp::function(unary.attributes[attr::function]);
  const size_t count = parameter_count(*find_unary_function(step.name));
  if (count > 0) step.parameters.push_back(unary.attributes[attr::alpha]);
  if (count > 1) step.parameters.push_back(unary.attributes[attr::beta]);
  return step;
}

ElementExpression with_post_ops(const Op& op, const std::string& value) {
  const PostOps& list = post_ops_of(op);
  ElementExpression result;
  std::string last = value;
  for (size_t i = 0; i < list.size(); ++i) {
    const PostOp& step = list[i];
    const auto scalar = [&](double number) {
      result.scalars.push_back(number);
      return concat("s", result.scalars.size() - 1);
    };
    std::string next;
    if (step.kind == PostOp::Kind::scale) {
      next = concat("(", last, ") * ", scalar(step.alpha()));
    } else {
      const UnaryFunction* function = step.kind == PostOp::Kind::function ? find_unary_function(step.name) : nullptr;
      if (!function || !function->expression) return {};
      const std::string argument = concat("v", i);
      result.text += concat(argument, " = ", last, "; ");
      const std::string alpha = function->alpha_key ? scalar(step.alpha()) : "s0";
      const std::string beta = function->beta_key ? scalar(step.beta()) : "s1";
      next = with_words(function->expression, argument, alpha, beta);
    }
    last = next;
  }
  result.text += "y0 = " + last;
  return result;
}

}  // namespace pl
