// Elementwise functions of two tensors, with NumPy broadcasting.
#include <optional>
#include <string_view>

#include "ops/gradient.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

enum class Gives { same, boolean };
enum class Domain { numbers, everything, bits, integers };  // bits: integers and bool

using Operation = Algebra::Operation;

struct BinaryFunction {
  const char* name;
  const char* title;
  const char* note;  // a sentence after the formula, or ""
  const char* formula;
  Domain domain;
  Gives gives;
  bool finite = false;  // of finite numbers, but of a zero divisor
  Operation operation = Operation::none;
  bool commutes = false;
  std::optional<double> neutral{};
};

constexpr const char* kOfBool = "Of bool it is the logical function.";

constexpr BinaryFunction kFunctions[] = {
    {"add", "Sum", "Integers wrap around.", "x + y", Domain::numbers, Gives::same, true, Operation::sum, true, -0.0},
    {"sub", "Difference", "Integers wrap around.", "x - y", Domain::numbers, Gives::same, true, Operation::difference,
     false, 0.0},
    {"mul", "Product", "Integers wrap around.", "x * y", Domain::numbers, Gives::same, true, Operation::product, true,
     1.0},
    {"div", "Quotient",
     "With rounding_mode \"trunc\" the quotient is rounded toward zero, with \"floor\" down; only so are integers "
     "divided, and a division by zero gives 0.",
     "x / y", Domain::numbers, Gives::same, true, Operation::quotient, false, 1.0},
    {"fmod", "Remainder of a division that rounds toward zero",
     "The result has the sign of x; x itself for integers and y = 0.", "x - trunc(x / y) * y", Domain::numbers,
     Gives::same},
    {"remainder", "Remainder of a division that rounds down",
     "The result has the sign of y; x itself for integers and y = 0.", "x - floor(x / y) * y", Domain::numbers,
     Gives::same},
    {"maximum", "The larger of two values", "NaN where one is NaN.", "max(x, y)", Domain::numbers, Gives::same, true,
     Operation::larger, true},
    {"minimum", "The smaller of two values", "NaN where one is NaN.", "min(x, y)", Domain::numbers, Gives::same, true,
     Operation::smaller, true},
    {"pow", "Power", "Integers wrap around; a negative power of one is 0 unless it is of 1 or -1.", "x ^ y",
     Domain::numbers, Gives::same, false, Operation::power, false, 1.0},
    {"eq", "Whether values are equal", "", "x == y", Domain::everything, Gives::boolean},
    {"ne", "Whether values differ", "", "x != y", Domain::everything, Gives::boolean},
    {"lt", "Whether x is less", "", "x < y", Domain::everything, Gives::boolean},
    {"le", "Whether x is less or equal", "", "x <= y", Domain::everything, Gives::boolean},
    {"gt", "Whether x is greater", "", "x > y", Domain::everything, Gives::boolean},
    {"ge", "Whether x is greater or equal", "", "x >= y", Domain::everything, Gives::boolean},
    {"logical_and", "Whether both values are true (not zero)", "", "x != 0 and y != 0", Domain::everything,
     Gives::boolean, false, Operation::conjunction, true},
    {"logical_or", "Whether a value is true (not zero)", "", "x != 0 or y != 0", Domain::everything, Gives::boolean,
     false, Operation::disjunction, true},
    {"logical_xor", "Whether one value is true (not zero), not both", "", "(x != 0) != (y != 0)", Domain::everything,
     Gives::boolean},
    {"bitwise_and", "The bits that both integers have", kOfBool, "x & y", Domain::bits, Gives::same},
    {"bitwise_or", "The bits that one of two integers has", kOfBool, "x | y", Domain::bits, Gives::same},
    {"bitwise_xor", "The bits that one of two integers has, not both", kOfBool, "x ^ y", Domain::bits, Gives::same},
    {"bitwise_left_shift", "Bits moved to higher places",
     "Those that leave are lost, zeros come in. Where y is negative, or not less than the number of bits of the dtype, "
     "the result is 0.",
     "x << y", Domain::integers, Gives::same},
    {"bitwise_right_shift", "Bits moved to lower places",
     "Those that leave are lost, copies of the sign come in: x / 2^y, rounded down. Where y is negative, or not less "
     "than the number of bits of the dtype, the result is 0, or -1 where x is negative.",
     "x >> y", Domain::integers, Gives::same},
};

const BinaryFunction& function_of(std::string_view name) {
  for (const BinaryFunction& function : kFunctions)
    if (name == function.name) return function;
  fail(Code::internal, "binary op ", name, " is not in the list of functions");
}

void infer_binary(Op& op) {
  if (const std::string* mode = op.attributes.find(attr::rounding_mode))
    op.attributes.set(attr::function, "div_" + *mode);
  if (function_of(op.schema->name).domain == Domain::bits && op.in(0).dtype == DType::boolean)  // bits are truth values
    op.attributes.set(attr::function, "logical" + op.schema->name.substr(std::string_view("bitwise").size()));
  add_output(op);
}

void derive_binary(Derivation& d) {
  const std::string& name = d.op().attributes[attr::function];
  const auto give = [&](int input, const char* expressions, const std::vector<Derivation::Value>& values) {
    d.give_if_wanted(input, [&] {
      const Derivation::Value whole = expressions ? d.pointwise(expressions, values) : d.gradient();
      return d.summed_to(whole, d.op().in(input).shape);
    });
  };
  const Derivation::Value x = d.input(0), y = d.input(1);
  const auto g = [&] { return d.gradient(); };
  if (name == "add" || name == "sub") {
    give(0, nullptr, {});
    give(1, name == "add" ? nullptr : "y0 = -x0", {g()});
  } else if (name == "mul") {
    give(0, "y0 = x0 * x1", {g(), y});
    give(1, "y0 = x0 * x1", {g(), x});
  } else if (name == "div") {
    give(0, "y0 = x0 / x1", {g(), y});
    give(1, "y0 = -x0 * (x1 / x2) / x2", {g(), x, y});  // the square of y may be out of range
  } else if (name == "maximum" || name == "minimum") {  // equal values share the gradient
    const bool larger = name == "maximum";
    give(0,
         larger ? "y0 = x0 * where(x1 > x2, 1, where(x1 == x2, 0.5, 0))"
                : "y0 = x0 * where(x1 < x2, 1, where(x1 == x2, 0.5, 0))",
         {g(), x, y});
    give(1,
         larger ? "y0 = x0 * where(x1 > x2, 0, where(x1 == x2, 0.5, 1))"
                : "y0 = x0 * where(x1 < x2, 0, where(x1 == x2, 0.5, 1))",
         {g(), x, y});
  } else if (name == "pow") {
    give(0, "y0 = where(x2 == 0, 0, x0 * x2 * pow(x1, x2 - 1))", {g(), x, y});
    give(1, "y0 = x0 * where(x1 == 0, 0, x3 * log(x1))", {g(), x, y, d.output()});
  } else if (name == "fmod" || name == "remainder") {
    give(0, nullptr, {});
    give(1, name == "fmod" ? "t = x1 / x2; y0 = -x0 * where(t < 0, ceil(t), floor(t))" : "y0 = -x0 * floor(x1 / x2)",
         {g(), x, y});
  } else {  // rounded quotients
    for (int i : {0, 1}) d.give_if_wanted(i, [&] { return d.pointwise("y0 = 0", {d.input(i)}); });
  }
}

// In the language of `pointwise`; without text for remainders and quotients that are rounded, which take several
// statements, and for what f32 does not hold, the bits of integers.
ElementExpression binary_expression(const Op& op) {
  static constexpr std::pair<std::string_view, const char*> values[] = {{"add", "x0 + x1"},
                                                                        {"sub", "x0 - x1"},
                                                                        {"mul", "x0 * x1"},
                                                                        {"div", "x0 / x1"},
                                                                        {"maximum", "max(x0, x1)"},
                                                                        {"minimum", "min(x0, x1)"},
                                                                        {"pow", "pow(x0, x1)"},
                                                                        {"eq", "x0 == x1"},
                                                                        {"ne", "x0 != x1"},
                                                                        {"lt", "x0 < x1"},
                                                                        {"le", "x0 <= x1"},
                                                                        {"gt", "x0 > x1"},
                                                                        {"ge", "x0 >= x1"},
                                                                        {"logical_and", "x0 != 0 && x1 != 0"},
                                                                        {"logical_or", "x0 != 0 || x1 != 0"},
                                                                        {"logical_xor", "(x0 != 0) != (x1 != 0)"}};
  for (const auto& [name, value] : values)
    if (op.attributes[attr::function] == name) return with_post_ops(op, value);
  return {};
}

// In words, and as a set.
std::pair<const char*, DTypes> taken_by(Domain domain) {
  switch (domain) {
    case Domain::numbers: return {"any dtype but bool", dtypes::numbers};
    case Domain::bits: return {"integers or bool", dtypes::bits};
    case Domain::integers: return {"integers", dtypes::integers};
    case Domain::everything: break;
  }
  return {"any dtype", dtypes::any};
}

Schema binary(const char* name) {
  const BinaryFunction& function = function_of(name);
  const bool same = function.gives == Gives::same;
  const bool numeric = same && function.domain == Domain::numbers;
  const bool divides = std::string_view(name) == "div";
  const bool shifts_or_scales =
      divides || std::string_view(name) == "add" || std::string_view(name) == "sub" || std::string_view(name) == "mul";
  const auto [taken, dtypes] = taken_by(function.domain);
  Schema schema(name, "binary",
                concat(function.title, ", element by element.\n\nout = ", numeric ? "activation(" : "",
                       function.formula, numeric ? ")" : "", *function.note ? "\n\n" : "", function.note,
                       "\n\nReturns the shape that x and y broadcast to by NumPy's rules, ",
                       same ? "in the dtype of x" : "as bool", ".\n\nSource: semantics of torch and NumPy."));
  schema.constant(attr::function, std::string(name)).tensor("x", concat("any shape, ", taken)).of(dtypes);
  if (shifts_or_scales) schema.trainable();
  schema.tensor("y", "broadcasts with x; the same dtype").like("x");
  if (shifts_or_scales) schema.trainable();
  if (divides)
    schema.nonzero()
        .attribute(attr::rounding_mode, None{}, "None, \"trunc\" or \"floor\"", {"trunc", "floor"})
        .restrict(attr::rounding_mode, {None{}}, "x", dtypes::floats);
  if (numeric) take_post_ops(schema);
  schema.by_element();
  if (same)
    schema.result(Result("out").like("x").broadcast().over("x").over("y"));
  else
    schema.result(Result("out").of(DType::boolean).broadcast().over("x").over("y"));
  schema.keeps_finite = function.finite;
  if (std::string_view(name) == "mul") schema.zeros = Zeros::where_any;
  // A quotient that is rounded is another function.
  schema.algebra = {function.operation, function.commutes, function.neutral, {}};
  if (divides) schema.algebra.not_with = attr::rounding_mode;
  schema.infer = infer_binary;
  schema.expression = binary_expression;
  if (numeric) schema.gradient = derive_binary;
  return schema;
}

PL_REGISTER_OP([] { return binary("add"); });
PL_REGISTER_OP([] { return binary("sub"); });
PL_REGISTER_OP([] { return binary("mul"); });
PL_REGISTER_OP([] { return binary("div"); });
PL_REGISTER_OP([] { return binary("maximum"); });
PL_REGISTER_OP([] { return binary("minimum"); });
PL_REGISTER_OP([] { return binary("pow"); });
PL_REGISTER_OP([] { return binary("eq"); });
PL_REGISTER_OP([] { return binary("ne"); });
PL_REGISTER_OP([] { return binary("lt"); });
PL_REGISTER_OP([] { return binary("le"); });
PL_REGISTER_OP([] { return binary("gt"); });
PL_REGISTER_OP([] { return binary("ge"); });
PL_REGISTER_OP([] { return binary("logical_and"); });
PL_REGISTER_OP([] { return binary("logical_or"); });
PL_REGISTER_OP([] { return binary("logical_xor"); });
PL_REGISTER_OP([] { return binary("bitwise_and"); });
PL_REGISTER_OP([] { return binary("bitwise_or"); });
PL_REGISTER_OP([] { return binary("bitwise_xor"); });
PL_REGISTER_OP([] { return binary("bitwise_left_shift"); });
PL_REGISTER_OP([] { return binary("bitwise_right_shift"); });
PL_REGISTER_OP([] { return binary("fmod"); });
PL_REGISTER_OP([] { return binary("remainder"); });

}  // namespace
}  // namespace pl
