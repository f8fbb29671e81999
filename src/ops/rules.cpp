#include "ops/rules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/op.h"

namespace pl {
namespace {

bool is_given(const Attributes& attributes, const AttributeName& name) {
  const AttributeValue* value = attributes.find_value(name);
  return value && !std::holds_alternative<None>(*value);
}

// "weight", or "tensors[2]" where there are several.
std::string name_of(const Op& op, int input) {
  const Parameter& parameter = op.schema->input_parameter(input);
  return parameter.kind == Parameter::Kind::tensors ? concat(parameter.name, '[', input, ']') : parameter.name;
}

struct Problem {
  Code code;
  std::string text;
};

std::string has_dtype(const Op& op, int input, DTypes expected) {
  return concat(name_of(op, input), " has dtype ", pl::name_of(op.in(input).dtype), ", expected one of ",
                expected.str());
}

std::optional<Problem> problem_of(const Op& op, int input, const InputDTypes& rule, bool explain) {
  const DType dtype = op.in(input).dtype;
  // Several tensors that need not be alike have one of the dtypes each.
  const bool like_itself = !rule.like.empty() && !rule.of.empty() &&
                           &op.schema->input_parameter(rule.like_input) == &op.schema->input_parameter(input);
  if (rule.like.empty() || like_itself) {
    if (rule.of.has(dtype)) return std::nullopt;
    return Problem{Code::unsupported, explain ? has_dtype(op, input, rule.of) : std::string()};
  }
  if (rule.of.has(dtype) || !op.has(rule.like_input) || dtype == op.in(rule.like_input).dtype) return std::nullopt;
  if (!explain) return Problem{Code::invalid_argument, {}};
  return Problem{Code::invalid_argument,
                 concat(name_of(op, input), ".dtype is ", pl::name_of(dtype), ", expected ",
                        rule.of.empty() ? std::string() : rule.of.str() + " or ",
                        pl::name_of(op.in(rule.like_input).dtype), " (", name_of(op, rule.like_input), ".dtype)")};
}

std::optional<Problem> problem_of(const Op& op, bool explain) {
  int input = 0;
  for (const Parameter& parameter : op.schema->parameters) {
    if (parameter.kind == Parameter::Kind::attribute) continue;
    const int end = parameter.kind == Parameter::Kind::tensors ? int(op.inputs.size()) : input + 1;
    for (; input < end; ++input)
      if (op.has(input))
        if (auto problem = problem_of(op, input, parameter.dtypes, explain)) return problem;
  }
  for (const Restriction& rule : op.schema->restrictions) {
    if (!op.has(rule.number) || rule.of.has(op.in(rule.number).dtype)) continue;
    const AttributeValue* value = op.attributes.find_value(rule.attribute);
    if (!value || std::find(rule.values.begin(), rule.values.end(), *value) == rule.values.end()) continue;
    if (!explain) return Problem{Code::unsupported, {}};
    return Problem{Code::unsupported,
                   concat(has_dtype(op, rule.number, rule.of), " with ", rule.attribute, '=', to_text(*value))};
  }
  return std::nullopt;
}

const Result& rule_of(const Op& op, int result) {
  const Result* last = nullptr;
  int at = 0;
  for (const Result& rule : op.schema->results) {
    if (rule.only_with_number >= 0 && !op.has(rule.only_with_number)) continue;
    last = &rule;
    if (rule.many || at++ == result) return rule;
  }
  require(last != nullptr, Code::internal, op.schema->name, ": result ", result, " has no rule");
  fail(Code::internal, op.schema->name, ": there is no result ", result);
}

// The integers of an attribute, be it one or several.
std::vector<int64_t> integers_of(const AttributeValue& value) {
  if (const auto* one = std::get_if<int64_t>(&value)) return {*one};
  if (const auto* several = std::get_if<std::vector<int64_t>>(&value)) return *several;
  return {};
}

// Whether an axis of input 0 stays where it is, and its places apart, as far as an attribute says.
bool passes_by(const AxisRule& rule, const Op& op, int axis) {
  const AttributeValue* value = op.attributes.find_value(rule.attribute);
  if (!value) return true;
  const std::vector<int64_t> numbers = integers_of(*value);
  const auto at = [&](int place) { return place < int(numbers.size()) ? numbers[size_t(place)] : 0; };
  switch (rule.meaning) {
    case AxisRule::Meaning::along:
      return !std::holds_alternative<None>(*value) &&
             std::find(numbers.begin(), numbers.end(), int64_t(axis)) == numbers.end();
    case AxisRule::Meaning::order: return at(axis) == axis;
    case AxisRule::Meaning::offsets: return at(axis) == 0;
    case AxisRule::Meaning::sizes: return true;
    case AxisRule::Meaning::last: return axis < op.in(0).rank() - int(numbers.size());
  }
  return false;
}

bool passes_by(const Op& op, int axis) {
  return std::all_of(op.schema->axes.begin(), op.schema->axes.end(),
                     [&](const AxisRule& rule) { return passes_by(rule, op, axis); });
}

}  // namespace

Result::Result(std::string name) : name(std::move(name)) {}
Result::~Result() = default;
Result::Result(const Result& other) = default;
Result::Result(Result&& other) noexcept = default;
Result& Result::operator=(const Result& other) = default;
Result& Result::operator=(Result&& other) noexcept = default;

Result& Result::named_by(const Key<std::string>& attribute, DTypes allowed_dtypes) {
  dtype_attribute = attribute;
  allowed = allowed_dtypes;
  return *this;
}
Result& Result::like(std::string input) {
  dtype_inputs.push_back(std::move(input));
  return *this;
}
Result& Result::of(DType fixed) {
  dtype = fixed;
  return *this;
}
Result& Result::shaped(std::string input) {
  shape = Shape::like;
  shape_input = std::move(input);
  return *this;
}
Result& Result::broadcast() {
  shape = Shape::broadcast;
  return *this;
}
Result& Result::over(std::string input) {
  may_overwrite.push_back(std::move(input));
  return *this;
}
Result& Result::updates(std::string input) {
  state = std::move(input);
  return over(state);
}
Result& Result::with(std::string input) {
  only_with = std::move(input);
  return *this;
}
Result& Result::repeated() {
  many = true;
  return *this;
}

std::string DTypes::str() const {
  std::string names;
  for (int i = 0; i < kDTypeCount; ++i)
    if (has(DType(i))) names += (names.empty() ? "" : ", ") + std::string(pl::name_of(DType(i)));
  return names;
}

void check_dtypes(const Op& op) {
  if (__builtin_expect(!problem_of(op, false), 1)) return;
  const std::optional<Problem> problem = problem_of(op, true);
  fail(problem->code, op.schema->name, ": ", problem->text);
}

bool takes_dtypes(const Op& op) { return !problem_of(op, false); }

DType result_dtype(const Op& op, int result) {
  const Result& rule = rule_of(op, result);
  if (const auto& key = rule.dtype_attribute)
    if (const std::string* name = op.attributes.find(*key)) {
      const DType dtype = parse_dtype(*name);
      check(op, rule.allowed.has(dtype), Code::unsupported, *key, " is ", pl::name_of(dtype), ", expected one of ",
            rule.allowed.str());
      return dtype;
    }
  for (int input : rule.dtype_numbers)
    if (op.has(input)) return op.in(input).dtype;
  return rule.dtype;
}

void add_output(Op& op, const Dims& shape) { add_output(op, result_dtype(op, int(op.outputs.size())), shape); }

void add_output(Op& op) {
  const Result& rule = rule_of(op, int(op.outputs.size()));
  if (rule.shape == Result::Shape::like) return add_output(op, op.in(rule.shape_number).shape);
  require(rule.shape == Result::Shape::broadcast, Code::internal, op.schema->name, ": result ", rule.name,
          " has no rule for its shape");
  std::vector<int> all;
  for (size_t i = 0; i < op.inputs.size(); ++i) all.push_back(int(i));
  add_output(op, broadcast_shapes(op, all));
}

bool is_elementwise(const Op& op) {
  return op.schema->elementwise && (op.schema->not_with.empty() || !is_given(op.attributes, op.schema->not_with));
}

const Algebra& algebra_of(const Schema& schema, const Attributes& attributes) {
  static const Algebra nothing;
  const AttributeName& not_with = schema.algebra.not_with;
  return not_with.empty() || !is_given(attributes, not_with) ? schema.algebra : nothing;
}

bool is_same_if_alike(const Op& op) {
  const std::vector<AllEqual>& only_if = op.schema->same_only_if;
  return op.schema->same_if_alike && std::all_of(only_if.begin(), only_if.end(), [&](const AllEqual& rule) {
           const std::vector<int64_t>& numbers = op.attributes[rule.attribute];
           return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == rule.number; });
         });
}

bool keeps_images_apart(const Op& op, const std::vector<bool>& batched) {
  const Schema& schema = *op.schema;
  if (schema.results.empty()) return false;
  const int rank = op.out().rank();
  const bool elementwise = is_elementwise(op);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.has(int(i))) continue;
    const TensorDesc& in = op.in(int(i));
    if (batched[i] && in.rank() <= schema.last_axes) return false;
    switch (elementwise ? Batch::broadcast : schema.input_parameter(int(i)).batch) {
      case Batch::never:
        if (batched[i]) return false;
        break;
      case Batch::always:
        if (!batched[i]) return false;
        break;
      case Batch::broadcast:
        if (batched[i] ? in.rank() != rank : in.rank() == rank && in.shape[0] != 1) return false;
        break;
      case Batch::mixes: return false;
    }
  }
  return elementwise || passes_by(op, 0);
}

bool keeps_apart(const Op& op, int axis) {
  return op.schema->other_axes && axis < op.in(0).rank() - op.schema->last_axes && passes_by(op, axis);
}

}  // namespace pl
