#include "ops/op.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ops/post_ops.h"

namespace pl {
namespace {

// Function-local, so that registrations of other files may run in any order before main.
std::map<std::string, Schema, std::less<>>& schemas() {
  static std::map<std::string, Schema, std::less<>> table;
  return table;
}

bool fits(const AttributeValue& value, AttributeType type) {
  switch (type) {
    case AttributeType::boolean: return std::holds_alternative<bool>(value);
    case AttributeType::integer: return std::holds_alternative<int64_t>(value);
    case AttributeType::number: return std::holds_alternative<double>(value);
    case AttributeType::string: return std::holds_alternative<std::string>(value);
    case AttributeType::integers: return std::holds_alternative<std::vector<int64_t>>(value);
    case AttributeType::numbers: return std::holds_alternative<std::vector<double>>(value);
    case AttributeType::post_ops: return std::holds_alternative<PostOps>(value);
  }
  return false;
}

// A value for a message: of a long one, as of a tensor that was given for a list, the beginning.
std::string brief_text(const AttributeValue& value) {
  constexpr size_t kMost = 100;  // bytes
  const std::string text = to_text(value);
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (uint8_t(text[end]) & 0xc0) == 0x80) --end;  // no half of a character
  const size_t comma = text.rfind(',', end - 1);
  return text.substr(0, comma == std::string::npos ? end : comma + 1) + " ...";
}

// Conversions that lose nothing: int to float, one value to a list of one, ints to floats, 0 and 1 to bool, the text of
// post-ops to their list.
AttributeValue convert(AttributeValue value, AttributeType type) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    if (type == AttributeType::number) return double(*integer);
    if (type == AttributeType::integers) return std::vector<int64_t>{*integer};
    if (type == AttributeType::numbers) return std::vector<double>{double(*integer)};
    if (type == AttributeType::boolean && (*integer == 0 || *integer == 1)) return *integer == 1;
  }
  if (const auto* number = std::get_if<double>(&value))
    if (type == AttributeType::numbers) return std::vector<double>{*number};
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value))
    if (type == AttributeType::numbers) return std::vector<double>(integers->begin(), integers->end());
  if (type == AttributeType::post_ops) {
    const auto* text = std::get_if<std::string>(&value);
    const auto* list = std::get_if<std::vector<int64_t>>(&value);  // an empty one has no type
    if (text) return parse_post_ops(*text);
    if (list && list->empty()) return PostOps{};
  }
  return value;
}

void check_inputs(const Op& op) {
  const Schema& schema = *op.schema;
  size_t expected = 0;
  for (const Parameter& parameter : schema.parameters) {
    if (parameter.kind == Parameter::Kind::attribute) continue;
    if (parameter.kind == Parameter::Kind::tensors) {
      require(!op.inputs.empty(), Code::invalid_argument, schema.name, ": ", parameter.name,
              " is empty, expected at least one tensor");
      for (const TensorDesc& desc : op.inputs)
        require(desc.present, Code::invalid_argument, schema.name, ": ", parameter.name, " holds no tensor at a place");
      return;
    }
    const bool given = expected < op.inputs.size() && op.inputs[expected].present;
    require(given || parameter.kind == Parameter::Kind::optional_tensor, Code::invalid_argument, schema.name, ": ",
            parameter.name, " is missing, expected a tensor");
    ++expected;
  }
  require(op.inputs.size() <= expected, Code::invalid_argument, schema.name, ": ", op.inputs.size(),
          " tensors given, expected at most ", expected);
}

}  // namespace

Op::Op() = default;
Op::~Op() = default;
Op::Op(const Op& other) = default;
Op::Op(Op&& other) noexcept = default;
Op& Op::operator=(const Op& other) = default;
Op& Op::operator=(Op&& other) noexcept = default;

Parameter::Parameter() = default;
Parameter::~Parameter() = default;
Parameter::Parameter(const Parameter& other) = default;
Parameter::Parameter(Parameter&& other) noexcept = default;
Parameter& Parameter::operator=(const Parameter& other) = default;
Parameter& Parameter::operator=(Parameter&& other) noexcept = default;

Schema::Schema(std::string name, std::string kind, std::string doc)
    : name(std::move(name)), kind(std::move(kind)), doc(std::move(doc)) {}
Schema::~Schema() = default;
Schema::Schema(const Schema& other) = default;
Schema::Schema(Schema&& other) noexcept = default;
Schema& Schema::operator=(const Schema& other) = default;
Schema& Schema::operator=(Schema&& other) noexcept = default;

Attributes complete_attributes(const Schema& schema, const Attributes& given) {
  Attributes result;
  std::string known;
  for (const Parameter& parameter : schema.parameters) {
    if (parameter.kind != Parameter::Kind::attribute) continue;
    known += (known.empty() ? "" : ", ") + parameter.name;
    const AttributeValue* value = given.find_value(parameter.attribute);
    if (!value) {
      require(!parameter.required, Code::invalid_argument, schema.name, ": ", parameter.name,
              " is missing, expected a value of type ", name_of(parameter.type));
      result.set_value(parameter.attribute, parameter.fallback);
      continue;
    }
    AttributeValue converted;
    try {
      converted = convert(*value, parameter.type);
    } catch (const Error& error) {  // knows neither op nor argument
      fail(error.code(), schema.name, ": ", parameter.name, " is ", error.what());
    }
    const bool none = std::holds_alternative<None>(converted);
    const bool word = std::holds_alternative<std::string>(converted) && !parameter.choices.empty();
    require(none ? !parameter.required && std::holds_alternative<None>(parameter.fallback)
                 : word || fits(converted, parameter.type),
            Code::invalid_argument, schema.name, ": ", parameter.name, " is ", brief_text(*value), " (",
            type_name(*value), "), expected a value of type ", name_of(parameter.type));
    if (word) {
      std::string choices;
      bool found = false;
      for (const std::string& choice : parameter.choices) {
        choices += (choices.empty() ? "" : ", ") + choice;
        found |= choice == std::get<std::string>(converted);
      }
      require(found, Code::invalid_argument, schema.name, ": ", parameter.name, " is ", to_text(*value), ", expected ",
              parameter.type == AttributeType::string ? "" : "integers or ", "one of ", choices);
    }
    result.set_value(parameter.attribute, converted);
  }
  for (const auto& [name, value] : given)
    require(result.has(name), Code::invalid_argument, schema.name, ": there is no parameter \"", name,
            "\"; expected one of ", known.empty() ? "(none)" : known);
  for (const auto& [name, value] : schema.constants) result.set_value(name, value);
  return result;
}

bool Op::has_empty_tensor() const {
  for (const auto* list : {&inputs, &outputs})
    for (const TensorDesc& desc : *list)
      if (desc.present && desc.elements() == 0) return true;
  return false;
}

std::string Op::str() const {
  std::string text = schema->name;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].present)
      text += " " + schema->input_parameter(int(i)).name + "=[" + inputs[i].str(schema->is_weights(int(i))) + "]";
  return attributes.empty() ? text : text + " " + attributes.str();
}

namespace {

Parameter tensor_parameter(std::string name, Parameter::Kind kind, std::string about, Role role) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.kind = kind;
  parameter.doc = std::move(about);
  parameter.role = role;
  parameter.required = kind != Parameter::Kind::optional_tensor;
  parameter.trainable = role == Role::constant;
  return parameter;
}

}  // namespace

Schema& Schema::tensor(std::string parameter, std::string about, Role role) {
  parameters.push_back(tensor_parameter(std::move(parameter), Parameter::Kind::tensor, std::move(about), role));
  return *this;
}
Schema& Schema::optional(std::string parameter, std::string about, Role role) {
  parameters.push_back(
      tensor_parameter(std::move(parameter), Parameter::Kind::optional_tensor, std::move(about), role));
  return *this;
}
Schema& Schema::tensors(std::string parameter, std::string about) {
  parameters.push_back(tensor_parameter(std::move(parameter), Parameter::Kind::tensors, std::move(about), Role::data));
  return *this;
}
Schema& Schema::add_attribute(const AttributeName& attribute, AttributeType type, bool needed, AttributeValue fallback,
                              std::string about, std::vector<std::string> choices) {
  Parameter parameter;
  parameter.name = attribute.text();
  parameter.kind = Parameter::Kind::attribute;
  parameter.doc = std::move(about);
  parameter.attribute = attribute;
  parameter.type = type;
  parameter.fallback = convert(std::move(fallback), type);
  parameter.required = needed;
  parameter.choices = std::move(choices);
  parameters.push_back(std::move(parameter));
  return *this;
}

Schema& Schema::of(DTypes dtypes) {
  parameters.back().dtypes.of = dtypes;
  return *this;
}
Schema& Schema::like(std::string input) { return like_or(std::move(input), {}); }
Schema& Schema::like_or(std::string input, DTypes of) {
  parameters.back().dtypes = {of, std::move(input), -1};
  return *this;
}
Schema& Schema::batched(Batch batch) {
  parameters.back().batch = batch;
  return *this;
}
Schema& Schema::trainable() {
  parameters.back().trainable = true;
  return *this;
}
Schema& Schema::selects() {
  parameters.back().selects = true;
  return *this;
}
Schema& Schema::nonzero() {
  parameters.back().nonzero = true;
  return *this;
}
Schema& Schema::ascending() {
  parameters.back().ascending = true;
  return *this;
}
Schema& Schema::result(Result result) {
  results.push_back(std::move(result));
  return *this;
}
Schema& Schema::restrict(const AttributeName& attribute, std::vector<AttributeValue> values, std::string input,
                         DTypes of) {
  restrictions.push_back({attribute, std::move(values), std::move(input), of, -1});
  return *this;
}
Schema& Schema::axis(const AttributeName& attribute, AxisRule::Meaning meaning) {
  axes.push_back({attribute, meaning});
  return *this;
}
Schema& Schema::by_element(const AttributeName& without) {
  elementwise = true;
  not_with = without;
  return *this;
}

int Schema::input_index(std::string_view parameter) const {
  int index = 0;
  for (const Parameter& p : parameters) {
    if (p.kind == Parameter::Kind::attribute) continue;
    if (p.name == parameter) return index;
    ++index;
  }
  return -1;
}

const Parameter& Schema::input_parameter(int input) const {
  const Parameter* last = nullptr;
  int index = 0;
  for (const Parameter& p : parameters) {
    if (p.kind == Parameter::Kind::attribute) continue;
    last = &p;
    if (p.kind == Parameter::Kind::tensors || index++ == input) return p;
  }
  require(last != nullptr, Code::internal, name, ": input ", input, " does not exist");
  return *last;
}

bool Schema::updates_states() const {
  return std::any_of(results.begin(), results.end(), [](const Result& result) { return !result.state.empty(); });
}

namespace {

// The numbers of the inputs that rules name.
void resolve_rules(Schema& schema) {
  const auto number = [&](const std::string& input) {
    const int found = schema.input_index(input);
    require(found >= 0, Code::internal, "op ", schema.name, ": a rule names the input ", input, ", which it has not");
    return found;
  };
  for (Parameter& parameter : schema.parameters)
    if (!parameter.dtypes.like.empty()) parameter.dtypes.like_input = number(parameter.dtypes.like);
  for (Restriction& rule : schema.restrictions) rule.number = number(rule.input);
  for (Result& result : schema.results) {
    for (const std::string& input : result.dtype_inputs) result.dtype_numbers.push_back(number(input));
    if (!result.shape_input.empty()) result.shape_number = number(result.shape_input);
    if (!result.only_with.empty()) result.only_with_number = number(result.only_with);
    for (const std::string& input : result.may_overwrite) {
      const int first = number(input);
      const bool variadic = schema.input_parameter(first).kind == Parameter::Kind::tensors;
      result.overwrites |= variadic ? ~uint64_t(0) : uint64_t(1) << first;
    }
  }
  for (const PostOp& operand : schema.post_ops.operands) number(operand.name);
  // The place that Weighting names.
  require(!schema.weighting || number("bias") == 2, Code::internal, "op ", schema.name,
          ": it weighs its input, so bias must be input 2");
}

// Each name is there once, and told from every other name.
void check_names(const Schema& schema) {
  std::set<std::string> seen;
  for (const Parameter& parameter : schema.parameters) {
    require(seen.insert(parameter.name).second, Code::internal, "op ", schema.name, ": ", parameter.name,
            " is declared twice");
    if (parameter.kind == Parameter::Kind::attribute) AttributeName::of(parameter.name);
  }
  for (const auto& [name, value] : schema.constants) {
    require(seen.insert(std::string(name.text())).second, Code::internal, "op ", schema.name, ": ", name,
            " is declared twice");
    AttributeName::of(name.text());
  }
}

}  // namespace

bool register_schema(Schema schema) {
  require(schema.infer != nullptr, Code::internal, "op ", schema.name, ": registered without infer");
  check_names(schema);
  resolve_rules(schema);
  if (!schema.flops)
    schema.flops = [](const Op& op) {
      double elements = 0;
      for (const TensorDesc& output : op.outputs) elements += double(output.elements());
      return elements;
    };
  const std::string name = schema.name;
  const bool added = schemas().emplace(name, std::move(schema)).second;
  require(added, Code::internal, "op ", name, ": registered twice");
  return true;
}

const Schema* find_schema(std::string_view name) {
  auto it = schemas().find(name);
  return it == schemas().end() ? nullptr : &it->second;
}

const std::vector<const Schema*>& all_schemas() {
  static const std::vector<const Schema*> sorted = [] {
    std::vector<const Schema*> list;
    for (const auto& entry : schemas()) list.push_back(&entry.second);
    return list;
  }();
  return sorted;
}

Op make_op(const Schema& schema, const Attributes& attributes, const std::vector<TensorDesc>& inputs) {
  Op op;
  op.schema = &schema;
  op.attributes = complete_attributes(schema, attributes);
  op.inputs = inputs;
  check_inputs(op);
  check_dtypes(op);
  try {
    complete_post_ops(op);
    schema.infer(op);
    check_operands(op);
  } catch (const Error& error) {
    // Errors of dims, layouts and descriptions do not know the op.
    const std::string message = error.what();
    if (message.compare(0, schema.name.size() + 1, schema.name + ":") == 0) throw;
    fail(error.code(), schema.name, ": ", message);
  }
  return op;
}

void check_rank(const Op& op, int input, int lowest, int highest) {
  const int rank = op.in(input).rank();
  check(op, rank >= lowest && rank <= highest, Code::shape, op.schema->input_parameter(input).name, " has rank ", rank,
        " with the shape ", op.in(input).shape, ", expected ", lowest,
        lowest == highest ? std::string() : concat(" to ", highest));
}

void check_dtype(const Op& op, int input, std::initializer_list<DType> allowed) {
  std::string names;
  for (DType dtype : allowed) {
    if (op.in(input).dtype == dtype) return;
    names += (names.empty() ? "" : ", ") + std::string(name_of(dtype));
  }
  check(op, false, Code::unsupported, op.schema->input_parameter(input).name, " has dtype ",
        name_of(op.in(input).dtype), ", expected one of ", names);
}

void check_float(const Op& op, int input) { check_dtype(op, input, {DType::f32, DType::f16, DType::bf16}); }

void check_same_dtype(const Op& op, int input, int reference) {
  if (!op.has(input) || !op.has(reference)) return;
  const DType dtype = op.in(input).dtype, expected = op.in(reference).dtype;
  check(op, dtype == expected, Code::invalid_argument, op.schema->input_parameter(input).name, ".dtype is ",
        name_of(dtype), ", expected ", name_of(expected), " (", op.schema->input_parameter(reference).name, ".dtype)");
}

void check_shape(const Op& op, int input, const Dims& expected, const char* why) {
  if (!op.has(input)) return;
  check(op, op.in(input).shape == expected, Code::shape, op.schema->input_parameter(input).name, ".shape is ",
        op.in(input).shape, ", expected ", expected, " (", why, ")");
}

void check_seed(const Op& op, int input) {
  const int64_t count = op.in(input).elements();
  check(op, count == 1 || count == 2, Code::shape, op.schema->input_parameter(input).name, " has shape ",
        op.in(input).shape, ", expected one element, or two: the seed and the first counter");
}

void check_finite(const Op& op, const Key<double>& attribute) {
  const double value = op.attributes[attribute];
  check(op, std::isfinite(value), Code::invalid_argument, attribute, " is ", value, ", expected a finite number");
}

void check_not_nan(const Op& op, const Key<double>& attribute) {
  check(op, op.attributes.is_none(attribute) || !std::isnan(op.attributes[attribute]), Code::invalid_argument,
        attribute, " is nan, expected a number");
}

void check_range(const Op& op, const AttributeName& attribute, const std::vector<int64_t>& values, int64_t lowest,
                 int64_t highest) {
  for (size_t i = 0; i < values.size(); ++i)
    check(op, values[i] >= lowest && values[i] <= highest, Code::invalid_argument, attribute,
          values.size() > 1 ? concat('[', i, ']') : std::string(), " is ", values[i], ", expected ", lowest, " to ",
          highest);
}

std::string_view word_of(const Op& op, const Key<Ints>& attribute) {
  const auto* word = std::get_if<std::string>(op.attributes.find_value(attribute));
  return word ? std::string_view(*word) : std::string_view();
}

std::vector<int64_t> expand_ints(Op& op, const Key<Ints>& attribute, int count) {
  std::vector<int64_t> values = op.attributes[attribute];
  if (values.size() == 1) values.resize(size_t(count), values[0]);
  check(op, values.size() == size_t(count), Code::invalid_argument, attribute, " has ", values.size(),
        " values, expected 1 or ", count);
  op.attributes.set(attribute, values);
  return values;
}

int64_t normalise_dim(const Op& op, const AttributeName& attribute, int64_t dim, int rank) {
  check(op, dim >= -rank && dim < rank, Code::invalid_argument, attribute, " is ", dim, ", expected ", -rank, " to ",
        rank - 1);
  return dim < 0 ? dim + rank : dim;
}

Dims broadcast_shapes(const Op& op, const std::vector<int>& inputs) {
  int rank = 0;
  for (int input : inputs) rank = std::max(rank, op.in(input).rank());
  Dims result = Dims::filled(rank, 1);
  for (int input : inputs) {
    const Dims& shape = op.in(input).shape;
    for (int i = 0; i < shape.size(); ++i) {
      int64_t& size = result[rank - shape.size() + i];
      check(op, shape[i] == size || shape[i] == 1 || size == 1, Code::shape, op.schema->input_parameter(input).name,
            " has shape ", shape, ", which does not broadcast with ", result);
      if (size == 1) size = shape[i];
    }
  }
  return result;
}

int64_t safe_product(const Op& op, const char* what, std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors)
    check(op, !__builtin_mul_overflow(product, factor, &product), Code::shape, what, " overflows 64 bits");
  return product;
}

void add_output(Op& op, DType dtype, const Dims& shape) {
  try {
    op.outputs.push_back(TensorDesc::dense(dtype, shape));
  } catch (const Error& error) {
    fail(error.code(), op.schema->name, ": the output has ", error.what());
  }
}

}  // namespace pl
