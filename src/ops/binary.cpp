// Elementwise functions of two tensors, with NumPy broadcasting.
#include <string_view>

#include "ops/activation.h"
#include "ops/gradient.h"

namespace pl {
namespace {

enum class Result { same, boolean };
enum class Domain { numbers, everything };

struct BinaryFunction {
  const char* name;
  const char* title;
  const char* note;  // a sentence after the formula, or ""
  const char* formula;
  Domain domain;
  Result result;
};

constexpr BinaryFunction kFunctions[] = {
    {"add", "Sum", "Integers wrap around.", "x + y", Domain::numbers, Result::same},
    {"sub", "Difference", "Integers wrap around.", "x - y", Domain::numbers, Result::same},
    {"mul", "Product", "Integers wrap around.", "x * y", Domain::numbers, Result::same},
    {"div", "Quotient",
     "With rounding_mode \"trunc\" the quotient is rounded toward zero, with \"floor\" down; only so are integers "
     "divided, and a division by zero gives 0.",
     "x / y", Domain::numbers, Result::same},
    {"fmod", "Remainder of a division that rounds toward zero",
     "The result has the sign of x; x itself for integers and y = 0.", "x - trunc(x / y) * y", Domain::numbers,
     Result::same},
    {"remainder", "Remainder of a division that rounds down",
     "The result has the sign of y; x itself for integers and y = 0.", "x - floor(x / y) * y", Domain::numbers,
     Result::same},
    {"maximum", "The larger of two values", "NaN where one is NaN.", "max(x, y)", Domain::numbers, Result::same},
    {"minimum", "The smaller of two values", "NaN where one is NaN.", "min(x, y)", Domain::numbers, Result::same},
    {"pow", "Power", "Integers wrap around; a negative power of one is 0 unless it is of 1 or -1.", "x ^ y",
     Domain::numbers, Result::same},
    {"eq", "Whether values are equal", "", "x == y", Domain::everything, Result::boolean},
    {"ne", "Whether values differ", "", "x != y", Domain::everything, Result::boolean},
    {"lt", "Whether x is less", "", "x < y", Domain::everything, Result::boolean},
    {"le", "Whether x is less or equal", "", "x <= y", Domain::everything, Result::boolean},
    {"gt", "Whether x is greater", "", "x > y", Domain::everything, Result::boolean},
    {"ge", "Whether x is greater or equal", "", "x >= y", Domain::everything, Result::boolean},
    {"logical_and", "Whether both values are true (not zero)", "", "x != 0 and y != 0", Domain::everything,
     Result::boolean},
    {"logical_or", "Whether a value is true (not zero)", "", "x != 0 or y != 0", Domain::everything, Result::boolean},
    {"logical_xor", "Whether one value is true (not zero), not both", "", "(x != 0) != (y != 0)", Domain::everything,
     Result::boolean},
};

const BinaryFunction& function_of(std::string_view name) {
  for (const BinaryFunction& function : kFunctions)
    if (name == function.name) return function;
  fail(Code::internal, "binary op ", name, " is not in the list of functions");
}

void infer(Op& op) {
  const BinaryFunction& function = function_of(op.schema->name);
  if (op.schema->name == "div") {
    const bool rounds = !op.attributes.is_none("rounding_mode");
    check(op, rounds || is_floating(op.in(0).dtype), Code::unsupported, "x has dtype ", name_of(op.in(0).dtype),
          ", expected f32, f16 or bf16 (integers need a rounding_mode)");
    if (rounds) op.attributes.set("function", "div_" + op.attributes.text("rounding_mode"));
  }
  if (function.domain == Domain::numbers)
    check_dtype(op, 0, {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32, DType::s64});
  check_same_dtype(op, 1);
  const DType dtype = function.result == Result::boolean ? DType::boolean : op.in(0).dtype;
  if (function.result == Result::boolean) {
    op.attributes.set("activation", None{});
    op.attributes.set("activation_alpha", 0.0);
    op.attributes.set("activation_beta", 0.0);
  } else {
    infer_activation(op, dtype);
  }
  add_output(op, dtype, broadcast_shapes(op, {0, 1}));
}

void derive(Derivation& d) {
  const std::string& name = d.op().attributes.text("function");
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
    give(1, "y0 = -x0 * x1 / (x2 * x2)", {g(), x, y});
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
    give(0, "y0 = 0 * x1", {g(), x});
    give(1, "y0 = 0 * x1", {g(), y});
  }
}

Schema binary(const char* name) {
  const BinaryFunction& function = function_of(name);
  const bool numeric = function.result == Result::same;
  const char* dtypes = function.domain == Domain::numbers ? "any dtype but bool" : "any dtype";
  Schema schema(name, "binary",
                concat(function.title, ", element by element.\n\nout = ", numeric ? "activation(" : "",
                       function.formula, numeric ? ")" : "", *function.note ? "\n\n" : "", function.note,
                       "\n\nReturns the shape that x and y broadcast to by NumPy's rules, ",
                       numeric ? "in the dtype of x" : "as bool", ".\n\nSource: semantics of torch and NumPy."));
  schema.constant("function", std::string(name))
      .tensor("x", concat("any shape, ", dtypes))
      .tensor("y", "broadcasts with x; the same dtype");
  if (std::string_view(name) == "div")
    schema.attribute("rounding_mode", AttributeType::string, None{}, "None, \"trunc\" or \"floor\"",
                     {"trunc", "floor"});
  if (numeric) {
    add_activation(schema);
    add_activation_parameters(schema);
  }
  schema.infer = infer;
  if (numeric) schema.gradient = derive;
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
PL_REGISTER_OP([] { return binary("fmod"); });
PL_REGISTER_OP([] { return binary("remainder"); });

}  // namespace
}  // namespace pl
