#include "providers/opencl/pointwise/pointwise_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/status.h"
#include "ops/activation.h"

namespace pl::opencl {

using pointwise::Arithmetic;
using pointwise::Function;
using pointwise::Node;
using pointwise::Reduction;

namespace {

// Comparisons and logic give 1 or 0.
std::string truth(const std::string& condition, bool real) {
  return "((" + condition + ") ? " + (real ? "1.0f : 0.0f)" : "1L : 0L)");
}

std::string node_text(const Node& node, const std::string& a, const std::string& b, const std::string& c, bool real) {
  const std::string zero = real ? "0.0f" : "0L";
  switch (node.function) {
    case Function::constant: return real ? float_literal(node.constant) : concat("(", int64_t(node.constant), "L)");
    case Function::negate: return "-" + a;
    case Function::logical_not: return truth(a + " == " + zero, real);
    case Function::rsqrt: return "1.0f / sqrt(" + a + ")";
    case Function::sigmoid: return "1.0f / (1.0f + exp(-" + a + "))";
    case Function::exp:
    case Function::expm1:
    case Function::log:
    case Function::log1p:
    case Function::sqrt:
    case Function::tanh:
    case Function::erf:
    case Function::erfc:
    case Function::lgamma:
    case Function::sin:
    case Function::cos: return std::string(pointwise::name_of(node.function)) + "(" + a + ")";
    case Function::erfinv: return "special_erfinv(" + a + ")";
    case Function::floor: return real ? "floor(" + a + ")" : a;
    case Function::ceil: return real ? "ceil(" + a + ")" : a;
    case Function::round: return real ? "rint(" + a + ")" : a;
    case Function::abs: return real ? "fabs(" + a + ")" : "(" + a + " < 0L ? -" + a + " : " + a + ")";
    case Function::sign: return real ? "UNARY_sign(float, " + a + ", 0, 0)" : "UNARYI_sign(" + a + ", 0, 0)";
    case Function::isnan: return real ? truth("isnan(" + a + ")", real) : zero;
    case Function::bit_not: return "~" + a;
    case Function::add: return a + " + " + b;
    case Function::subtract: return a + " - " + b;
    case Function::multiply: return a + " * " + b;
    case Function::divide: return real ? a + " / " + b : "integer_divide(" + a + ", " + b + ")";
    case Function::maximum: return real ? "maximum(" + a + ", " + b + ")" : "max(" + a + ", " + b + ")";
    case Function::minimum: return real ? "minimum(" + a + ", " + b + ")" : "min(" + a + ", " + b + ")";
    case Function::power:
    case Function::atan2:
    case Function::copysign: return concat(pointwise::name_of(node.function), "(", a, ", ", b, ")");
    case Function::fmod: return concat(real ? "fmod(" : "integer_fmod(", a, ", ", b, ")");
    case Function::less: return truth(a + " < " + b, real);
    case Function::less_equal: return truth(a + " <= " + b, real);
    case Function::greater: return truth(a + " > " + b, real);
    case Function::greater_equal: return truth(a + " >= " + b, real);
    case Function::equal: return truth(a + " == " + b, real);
    case Function::not_equal: return truth(a + " != " + b, real);
    case Function::logical_and: return truth(a + " != " + zero + " && " + b + " != " + zero, real);
    case Function::logical_or: return truth(a + " != " + zero + " || " + b + " != " + zero, real);
    case Function::bit_and: return a + " & " + b;
    case Function::bit_or: return a + " | " + b;
    case Function::bit_xor: return a + " ^ " + b;
    case Function::left_shift: return "integer_left_shift(" + a + ", " + b + ")";
    case Function::right_shift: return "integer_right_shift(" + a + ", " + b + ")";
    case Function::where: return "(" + a + " != " + zero + " ? " + b + " : " + c + ")";
    case Function::clip:
      return real ? "minimum(maximum(" + a + ", " + b + "), " + c + ")" : "min(max(" + a + ", " + b + "), " + c + ")";
    case Function::input:
    case Function::scalar:
    case Function::reduced:
    case Function::count: break;  // leaves that the caller knows
  }
  fail(Code::internal, "pointwise: no OpenCL text for ", pointwise::name_of(node.function));
}

bool is_named_leaf(Function function) {
  return function == Function::input || function == Function::scalar || function == Function::reduced ||
         function == Function::count;
}

}  // namespace

int64_t to_integer(double value) {
  if (!(value > -9.2e18)) return std::isnan(value) ? 0 : std::numeric_limits<int64_t>::min();
  if (!(value < 9.2e18)) return std::numeric_limits<int64_t>::max();
  return int64_t(value);
}

const char* arithmetic_type(Arithmetic arithmetic) { return arithmetic == Arithmetic::f32 ? "float" : "long"; }

CodeText code_text(const pointwise::Code& code, Arithmetic arithmetic, const std::string& prefix,
                   const std::function<std::string(const Node&)>& leaf, const std::string& type) {
  const bool real = arithmetic == Arithmetic::f32;
  const std::string declared = type.empty() ? arithmetic_type(arithmetic) : type;
  CodeText out;
  const auto variable = [&](int node) { return node < 0 ? std::string() : concat(prefix, node); };
  for (size_t i = 0; i < code.nodes.size(); ++i) {
    const Node& node = code.nodes[i];
    const std::string value = is_named_leaf(node.function)
                                  ? leaf(node)
                                  : node_text(node, variable(node.arguments[0]), variable(node.arguments[1]),
                                              variable(node.arguments[2]), real);
    out.statements += concat("const ", declared, " ", prefix, i, " = ", value, ";\n");
  }
  for (int result : code.results) out.results.push_back(variable(result));
  return out;
}

bool suits_vectors(const pointwise::Code& code) {
  for (const Node& node : code.nodes) switch (node.function) {
      case Function::constant:
      case Function::input:
      case Function::scalar:
      case Function::negate:
      case Function::rsqrt:
      case Function::sigmoid:
      case Function::exp:
      case Function::expm1:
      case Function::log:
      case Function::log1p:
      case Function::sqrt:
      case Function::tanh:
      case Function::erf:
      case Function::sin:
      case Function::cos:
      case Function::floor:
      case Function::ceil:
      case Function::round:
      case Function::abs:
      case Function::add:
      case Function::subtract:
      case Function::multiply:
      case Function::divide: break;
      default: return false;
    }
  return true;
}

namespace {

void define_text(KernelSource& source, const std::string& name, const CodeText& text) {
  std::string statements = text.statements;
  std::replace(statements.begin(), statements.end(), '\n', ' ');
  source.define(name + "_TEXT", statements).define(name + "_VALUE", text.results[0]);
}

}  // namespace

void define_function(KernelSource& source, const std::string& name, const pointwise::Code& code,
                     const std::vector<double>& scalars) {
  define_text(source, name, code_text(code, Arithmetic::f32, "t", [&](const Node& node) {
                return node.function == Function::scalar  ? float_literal(scalars[size_t(node.index)])
                       : node.function != Function::input ? std::string("1.0f")
                                                          : concat("v", node.index);
              }));
}

void define_slope(KernelSource& source, const std::string& name, const PostOp& function) {
  define_text(source, name, code_text(slope_of(function).elements, Arithmetic::f32, "t", [&](const Node& node) {
                if (node.function == Function::scalar)
                  return float_literal(node.index == 0 ? function.alpha() : function.beta());
                return concat("x", node.index);
              }));
}

std::string identity_text(Reduction reduction, Arithmetic arithmetic) {
  const bool real = arithmetic == Arithmetic::f32;
  switch (reduction) {
    case Reduction::sum: return real ? "0.0f" : "0L";
    case Reduction::product: return real ? "1.0f" : "1L";
    case Reduction::maximum: return real ? "(-INFINITY)" : "LONG_MIN";
    case Reduction::minimum: return real ? "INFINITY" : "LONG_MAX";
  }
  return {};
}

std::string fold_text(Reduction reduction, Arithmetic arithmetic, const std::string& a, const std::string& b) {
  const bool real = arithmetic == Arithmetic::f32;
  switch (reduction) {
    case Reduction::sum: return a + " + " + b;
    case Reduction::product: return a + " * " + b;
    case Reduction::maximum: return (real ? "maximum(" : "max(") + a + ", " + b + ")";
    case Reduction::minimum: return (real ? "minimum(" : "min(") + a + ", " + b + ")";
  }
  return {};
}

}  // namespace pl::opencl
