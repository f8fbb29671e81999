#include "ops/pointwise.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

namespace pl::pointwise {
namespace {

// What a function is defined on.
enum class Of : uint8_t { any, reals, integers };

struct Info {
  const char* name;
  int arity;
  Of of;
};

// In the order of Function.
constexpr Info kInfo[] = {
    {"constant", 0, Of::any},    {"x", 0, Of::any},           {"s", 0, Of::any},           {"reduce_y", 0, Of::any},
    {"count", 0, Of::any},       {"-", 1, Of::any},           {"!", 1, Of::any},           {"exp", 1, Of::reals},
    {"expm1", 1, Of::reals},     {"log", 1, Of::reals},       {"log1p", 1, Of::reals},     {"sqrt", 1, Of::reals},
    {"rsqrt", 1, Of::reals},     {"tanh", 1, Of::reals},      {"sigmoid", 1, Of::reals},   {"erf", 1, Of::reals},
    {"erfc", 1, Of::reals},      {"erfinv", 1, Of::reals},    {"lgamma", 1, Of::reals},    {"sin", 1, Of::reals},
    {"cos", 1, Of::reals},       {"floor", 1, Of::any},       {"ceil", 1, Of::any},        {"round", 1, Of::any},
    {"abs", 1, Of::any},         {"sign", 1, Of::any},        {"isnan", 1, Of::any},       {"bitnot", 1, Of::integers},
    {"+", 2, Of::any},           {"-", 2, Of::any},           {"*", 2, Of::any},           {"/", 2, Of::any},
    {"max", 2, Of::any},         {"min", 2, Of::any},         {"pow", 2, Of::reals},       {"fmod", 2, Of::any},
    {"atan2", 2, Of::reals},     {"copysign", 2, Of::reals},  {"<", 2, Of::any},           {"<=", 2, Of::any},
    {">", 2, Of::any},           {">=", 2, Of::any},          {"==", 2, Of::any},          {"!=", 2, Of::any},
    {"&&", 2, Of::any},          {"||", 2, Of::any},          {"bitand", 2, Of::integers}, {"bitor", 2, Of::integers},
    {"bitxor", 2, Of::integers}, {"lshift", 2, Of::integers}, {"rshift", 2, Of::integers}, {"where", 3, Of::any},
    {"clip", 3, Of::any},
};
static_assert(sizeof(kInfo) / sizeof(kInfo[0]) == size_t(Function::clip) + 1, "one entry for each function");

constexpr const char* kReductionNames[] = {"+=", "*=", "max=", "min="};

// Functions by the names that expressions call them by.
const std::map<std::string, Function, std::less<>>& functions() {
  static const auto table = [] {
    std::map<std::string, Function, std::less<>> map;
    for (int i = 0; i <= int(Function::clip); ++i)
      if (kInfo[i].arity > 0 && std::isalpha(static_cast<unsigned char>(kInfo[i].name[0])))
        map[kInfo[i].name] = Function(i);
    map["fabs"] = Function::abs;
    map["fmax"] = Function::maximum;
    map["fmin"] = Function::minimum;
    map["select"] = Function::where;
    return map;
  }();
  return table;
}

struct Token {
  enum Kind { end, number, name, symbol } kind = end;
  std::string_view text;
  size_t position = 0;  // counted from 0
};

class Parser {
 public:
  Parser(std::string_view op, Program& program, int scalars) : op_(op), program_(program), scalars_(scalars) {}

  void parse_expressions(std::string_view text) {
    begin("expressions", text);
    while (token_.kind != Token::end) {
      const Token target = expect_name("an output (y0, y1, ...) or a temporary");
      expect("=");
      define(target, expression(program_.elements));
      end_statement();
    }
    size_t outputs = 0;
    while (variables_.count("y" + std::to_string(outputs))) ++outputs;
    for (const auto& entry : variables_) {
      const int index = index_of(entry.first, "y");
      if (index >= int(outputs))
        error(0, "y", index, " is defined, but y", outputs, " is not; expected outputs without gaps");
    }
    for (size_t i = 0; i < outputs; ++i) program_.elements.results.push_back(variables_["y" + std::to_string(i)]);
    program_.outputs = int(outputs);
  }

  void parse_reductions(std::string_view text) {
    begin("reductions", text);
    std::map<int, std::pair<Reduction, int>> reductions;
    std::map<int, int> results;
    while (token_.kind != Token::end) {
      const Token target = expect_name("reduce_y0, reduce_y1, ... or, after a reduction, y0, y1, ...");
      const int reduced = index_of(target.text, "reduce_y");
      if (reduced >= 0) {
        finishing_ = false;
        if (reductions.count(reduced)) error(target.position, target.text, " is reduced twice");
        reductions[reduced] = reduction(target);
      } else {
        const int output = index_of(target.text, "y");
        if (output < 0) error(target.position, "unexpected \"", target.text, "\", expected reduce_yN or yN");
        finishing_ = true;
        reduced_ = &reductions;
        expect("=");
        if (!results.emplace(output, expression(program_.finish)).second)
          error(target.position, target.text, " is defined twice");
      }
      end_statement();
    }
    if (reductions.empty()) error(0, "there is no reduction, expected for instance \"reduce_y0 += y0\"");
    const int outputs = reductions.rbegin()->first + 1;
    if (int(reductions.size()) != outputs || outputs < program_.outputs)
      error(0, reductions.size(), " reductions, expected one for each output without gaps (reduce_y0 ... reduce_y",
            std::max(outputs, program_.outputs) - 1, ")");
    program_.outputs = outputs;
    program_.elements.results.clear();
    for (const auto& [index, reduction] : reductions) {
      program_.reductions.push_back(reduction.first);
      program_.elements.results.push_back(reduction.second);
      const auto result = results.find(index);
      program_.finish.results.push_back(result != results.end() ? result->second
                                                                : leaf(program_.finish, Function::reduced, index));
    }
    if (!results.empty() && results.rbegin()->first >= outputs)
      error(0, "y", results.rbegin()->first, " is not reduced, expected at most y", outputs - 1);
  }

 private:
  template <class... Parts>
  [[noreturn]] void error(size_t position, const Parts&... parts) const {
    fail(pl::Code::invalid_argument, op_, ": ", what_, ", position ", position, ": ", parts...);
  }

  void begin(const char* what, std::string_view text) {
    what_ = what;
    text_ = text;
    at_ = 0;
    next();
  }

  // ---- tokens
  void next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    const size_t start = at_;
    token_ = Token{Token::end, {}, start};
    if (at_ == text_.size()) return;
    const auto here = [&](size_t ahead) -> unsigned char {
      return at_ + ahead < text_.size() ? static_cast<unsigned char>(text_[at_ + ahead]) : 0;
    };
    if (std::isdigit(here(0)) || (here(0) == '.' && std::isdigit(here(1)))) {
      token_.kind = Token::number;
      while (std::isdigit(here(0)) || here(0) == '.') ++at_;
      if (here(0) == 'e' || here(0) == 'E') {
        const size_t sign = here(1) == '+' || here(1) == '-';
        if (std::isdigit(here(1 + sign)))
          for (at_ += 1 + sign; std::isdigit(here(0));) ++at_;
      }
      token_.text = text_.substr(start, at_ - start);
      if (here(0) == 'f') ++at_;  // as in C: 0.5f
      return;
    }
    if (std::isalpha(here(0)) || here(0) == '_') {
      token_.kind = Token::name;
      while (std::isalnum(here(0)) || here(0) == '_') ++at_;
      token_.text = text_.substr(start, at_ - start);
      return;
    }
    token_.kind = Token::symbol;
    static constexpr std::string_view pairs[] = {"<=", ">=", "==", "!=", "&&", "||", "+=", "*="};
    size_t length = 1;
    for (std::string_view pair : pairs)
      if (text_.substr(start, 2) == pair) length = 2;
    if (length == 1 && std::string_view("+-*/<>!?:=(),;").find(char(here(0))) == std::string_view::npos)
      error(start, "unexpected character '", char(here(0)), "'");
    at_ += length;
    token_.text = text_.substr(start, length);
  }

  bool is(std::string_view symbol) const { return token_.kind == Token::symbol && token_.text == symbol; }
  bool accept(std::string_view symbol) {
    if (!is(symbol)) return false;
    next();
    return true;
  }
  std::string shown(const Token& token) const {
    return token.kind == Token::end ? std::string("the end") : "\"" + std::string(token.text) + "\"";
  }
  void expect(std::string_view symbol) {
    if (!accept(symbol)) error(token_.position, "expected \"", symbol, "\", found ", shown(token_));
  }
  Token expect_name(const char* meaning) {
    if (token_.kind != Token::name) error(token_.position, "expected ", meaning, ", found ", shown(token_));
    const Token token = token_;
    next();
    return token;
  }
  void end_statement() {
    if (token_.kind != Token::end) expect(";");
  }

  // N of prefixN, or -1.
  static int index_of(std::string_view name, std::string_view prefix) {
    if (name.size() <= prefix.size() || name.substr(0, prefix.size()) != prefix) return -1;
    int index = 0;
    const auto [end, code] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), index);
    return code == std::errc() && end == name.data() + name.size() && index < 1000 ? index : -1;
  }

  void define(const Token& target, int node) {
    const std::string name(target.text);
    const bool taken = functions().count(name) || index_of(name, "x") >= 0 || index_of(name, "s") >= 0 ||
                       index_of(name, "reduce_y") >= 0 || name == "inf" || name == "nan" || name == "pi" ||
                       name == "count";
    if (taken) error(target.position, "\"", name, "\" cannot be assigned, expected yN or a new name");
    if (!variables_.emplace(name, node).second) error(target.position, "\"", name, "\" is defined twice");
  }

  // ---- nodes
  static int add(Code& code, const Node& node) {
    for (size_t i = 0; i < code.nodes.size(); ++i) {
      const Node& other = code.nodes[i];
      const bool same_constant = node.constant == other.constant
                                     ? std::signbit(node.constant) == std::signbit(other.constant)
                                     : std::isnan(node.constant) && std::isnan(other.constant);
      if (other.function == node.function && other.index == node.index && same_constant &&
          std::equal(other.arguments, other.arguments + 3, node.arguments))
        return int(i);
    }
    code.nodes.push_back(node);
    return int(code.nodes.size()) - 1;
  }
  static int leaf(Code& code, Function function, int index) {
    Node node;
    node.function = function;
    node.index = index;
    return add(code, node);
  }
  int constant(Code& code, double value, size_t position) {
    if (program_.arithmetic == Arithmetic::s64 && (std::floor(value) != value || std::fabs(value) > 9.0e15))
      error(position, "the constant ", value, " is not an integer, but the arithmetic is (all tensors are integers)");
    Node node;
    node.constant = value;
    return add(code, node);
  }
  int apply(Code& code, Function function, size_t position, int a, int b = -1, int c = -1) {
    const Info& info = kInfo[size_t(function)];
    if (info.of == Of::reals && program_.arithmetic == Arithmetic::s64)
      error(position, info.name, " needs a floating dtype, but all tensors are integers");
    if (info.of == Of::integers && program_.arithmetic == Arithmetic::f32)
      error(position, info.name, " needs integers, but the arithmetic is f32 (a floating dtype, or arithmetic=f32)");
    Node node;
    node.function = function;
    node.arguments[0] = a;
    node.arguments[1] = b;
    node.arguments[2] = c;
    return add(code, node);
  }

  // ---- expressions, lowest precedence first
  int expression(Code& code) {
    if (++depth_ > 200) error(token_.position, "nested too deeply, expected at most 200 levels");
    int value = any(code);
    if (is("?")) {
      const size_t position = token_.position;
      next();
      const int yes = expression(code);
      expect(":");
      const int no = expression(code);
      value = apply(code, Function::where, position, value, yes, no);
    }
    --depth_;
    return value;
  }
  int any(Code& code) {
    int value = all(code);
    while (is("||")) {
      const size_t position = token_.position;
      next();
      const int other = all(code);
      value = apply(code, Function::logical_or, position, value, other);
    }
    return value;
  }
  int all(Code& code) {
    int value = comparison(code);
    while (is("&&")) {
      const size_t position = token_.position;
      next();
      const int other = comparison(code);
      value = apply(code, Function::logical_and, position, value, other);
    }
    return value;
  }
  int comparison(Code& code) {
    const int value = sum(code);
    for (Function function : {Function::less, Function::less_equal, Function::greater, Function::greater_equal,
                              Function::equal, Function::not_equal})
      if (is(kInfo[size_t(function)].name)) {
        const size_t position = token_.position;
        next();
        const int other = sum(code);
        return apply(code, function, position, value, other);
      }
    return value;
  }
  int sum(Code& code) {
    int value = product(code);
    while (is("+") || is("-")) {
      const Function function = is("+") ? Function::add : Function::subtract;
      const size_t position = token_.position;
      next();
      const int other = product(code);
      value = apply(code, function, position, value, other);
    }
    return value;
  }
  int product(Code& code) {
    int value = unary(code);
    while (is("*") || is("/")) {
      const Function function = is("*") ? Function::multiply : Function::divide;
      const size_t position = token_.position;
      next();
      const int other = unary(code);
      value = apply(code, function, position, value, other);
    }
    return value;
  }
  int unary(Code& code) {
    if (is("-") || is("+") || is("!")) {
      if (++depth_ > 200) error(token_.position, "nested too deeply, expected at most 200 levels");
      const char sign = token_.text[0];
      const size_t position = token_.position;
      next();
      const int value = unary(code);
      --depth_;
      if (sign == '+') return value;
      return apply(code, sign == '-' ? Function::negate : Function::logical_not, position, value);
    }
    return primary(code);
  }
  int primary(Code& code) {
    const Token token = token_;
    if (accept("(")) {
      const int value = expression(code);
      expect(")");
      return value;
    }
    if (token.kind == Token::number) {
      next();
      double value = 0;
      const auto [end, failed] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (failed != std::errc() || end != token.text.data() + token.text.size())
        error(token.position, "\"", token.text, "\" is not a number");
      return constant(code, value, token.position);
    }
    if (token.kind != Token::name) error(token.position, "expected a value, found ", shown(token));
    next();
    const auto function = functions().find(token.text);
    if (function != functions().end()) return call(code, function->second, token);
    return variable(code, token);
  }
  int call(Code& code, Function function, const Token& token) {
    expect("(");
    int arguments[3] = {-1, -1, -1};
    const int arity = arity_of(function);
    int count = 0;
    do {
      const int value = expression(code);
      if (count < 3) arguments[count] = value;
      ++count;
    } while (accept(","));
    if (count != arity)
      error(token.position, token.text, " has ", count, count == 1 ? " argument" : " arguments", ", expected ", arity);
    expect(")");
    return apply(code, function, token.position, arguments[0], arguments[1], arguments[2]);
  }
  int variable(Code& code, const Token& token) {
    const std::string_view name = token.text;
    if (name == "pi") return constant(code, 3.14159265358979323846, token.position);
    if (name == "inf") return constant(code, std::numeric_limits<double>::infinity(), token.position);
    if (name == "nan") return constant(code, std::numeric_limits<double>::quiet_NaN(), token.position);
    const int scalar = index_of(name, "s");
    if (scalar >= 0) {
      if (scalar >= scalars_) error(token.position, name, " does not exist, ", scalars_, " scalars were given");
      return leaf(code, Function::scalar, scalar);
    }
    if (finishing_) {
      const int reduced = index_of(name, "reduce_y");
      if (reduced >= 0) {
        if (!reduced_->count(reduced)) error(token.position, name, " is not reduced before");
        return leaf(code, Function::reduced, reduced);
      }
      if (name == "count") return leaf(code, Function::count, 0);
      error(token.position, "\"", name, "\" is not known after a reduction, expected reduce_yN, count or sN");
    }
    const int input = index_of(name, "x");
    if (input >= 0) {
      if (input >= program_.inputs)
        error(token.position, name, " does not exist, ", program_.inputs, " tensors were given");
      return leaf(code, Function::input, input);
    }
    const auto it = variables_.find(name);
    if (it == variables_.end())
      error(token.position, "\"", name, "\" is not known, expected a tensor (x0), a scalar (s0), a function, ",
            "or a name defined before");
    return it->second;
  }

  std::pair<Reduction, int> reduction(const Token& target) {
    for (Reduction kind : {Reduction::sum, Reduction::product})
      if (accept(name_of(kind))) return {kind, expression(program_.elements)};
    // "max=" is a name and a symbol; "= max(reduce_yN, expression)" says the same.
    const auto named = [&](std::string_view text) {
      if (text == "max" || text == "fmax") return Reduction::maximum;
      if (text == "min" || text == "fmin") return Reduction::minimum;
      error(token_.position, "expected +=, *=, max= or min=, found ", shown(token_));
    };
    if (token_.kind == Token::name) {
      const Reduction kind = named(token_.text);
      next();
      expect("=");
      return {kind, expression(program_.elements)};
    }
    if (!accept("=")) error(token_.position, "expected +=, *=, max= or min=, found ", shown(token_));
    const Reduction kind = named(token_.text);
    next();
    expect("(");
    if (token_.kind != Token::name || token_.text != target.text)
      error(token_.position, "expected ", target.text, ", found ", shown(token_));
    next();
    expect(",");
    const int value = expression(program_.elements);
    expect(")");
    return {kind, value};
  }

  std::string_view op_;
  Program& program_;
  int scalars_;
  const char* what_ = "";
  std::string_view text_;
  size_t at_ = 0;
  Token token_;
  int depth_ = 0;
  bool finishing_ = false;
  const std::map<int, std::pair<Reduction, int>>* reduced_ = nullptr;
  std::map<std::string, int, std::less<>> variables_;
};

// ---- the schema

Arithmetic arithmetic_of(const Op& op, DType result) {
  const std::string* wanted = op.attributes.find(attr::arithmetic);
  bool floating = is_floating(result) || (wanted && *wanted == "f32");
  for (const TensorDesc& input : op.inputs) floating |= is_floating(input.dtype);
  return floating ? Arithmetic::f32 : Arithmetic::s64;
}

// Whether the result is an integer in the range of 8 bits before it is stored, as quantizing_expression() writes it.
bool gives_bytes(const Op& op) {
  const bool is_signed = op.out().dtype == DType::s8;
  if (!is_signed && op.out().dtype != DType::u8) return false;
  const Program program = program_of(op);
  const std::vector<Node>& nodes = program.elements.nodes;
  const auto number = [&](int node) {
    const Node& at = nodes[size_t(node)];
    return at.function == Function::constant ? at.constant
           : at.function == Function::scalar ? op.attributes[attr::scalars][size_t(at.index)]
                                             : std::nan("");
  };
  const Node& last = nodes[size_t(program.elements.results[0])];
  if (last.function != Function::clip) return false;
  const double low = number(last.arguments[1]), high = number(last.arguments[2]);
  if (!(low >= (is_signed ? -128 : 0) && high <= (is_signed ? 127 : 255))) return false;
  const Node& sum = nodes[size_t(last.arguments[0])];
  const Node& rounded = sum.function == Function::add ? nodes[size_t(sum.arguments[0])] : sum;
  const double zero = sum.function == Function::add ? number(sum.arguments[1]) : 0;
  return rounded.function == Function::round && zero == std::floor(zero) && low == std::floor(low) &&
         high == std::floor(high);
}

void infer_pointwise(Op& op) {
  const bool reduces = !op.attributes.is_none(attr::reductions);
  const DType dtype = result_dtype(op, 0);
  op.attributes.set(attr::dtype, std::string(name_of(dtype)));
  const Arithmetic arithmetic = arithmetic_of(op, dtype);
  check(op, op.inputs.size() <= 16, pl::Code::invalid_argument, op.inputs.size(),
        " tensors given, expected at most 16");
  for (double scalar : op.attributes[attr::scalars])
    check(op, arithmetic == Arithmetic::f32 || (std::floor(scalar) == scalar && std::fabs(scalar) <= 9.0e15),
          pl::Code::invalid_argument, "scalars holds ", scalar, ", expected integers, as all tensors are integers");
  const Program program =
      parse(op.schema->name, op.attributes[attr::expressions], reduces ? op.attributes[attr::reductions] : "",
            int(op.inputs.size()), int(op.attributes[attr::scalars].size()), arithmetic);

  std::vector<int> all;
  for (size_t i = 0; i < op.inputs.size(); ++i) all.push_back(int(i));
  Dims shape = broadcast_shapes(op, all);
  TensorDesc::dense(dtype, shape);  // a reduction may have a small result, but its elements must be countable too
  if (!reduces) {
    check(op, op.attributes.is_none(attr::dim_ints), pl::Code::invalid_argument, "dim is ",
          to_text(*op.attributes.find_value(attr::dim_ints)), ", expected none, as there are no reductions");
  } else {
    // No dimensions are all dimensions, as for the kind reduce.
    const bool all_dims = op.attributes.is_none(attr::dim_ints) || op.attributes[attr::dim_ints].empty();
    std::vector<bool> reduced(size_t(shape.size()), all_dims);
    if (!all_dims)
      for (int64_t dim : op.attributes[attr::dim_ints])
        reduced[size_t(normalise_dim(op, attr::dim_ints, dim, shape.size()))] = true;
    const bool keepdim = op.attributes[attr::keepdim];
    std::vector<int64_t> dims;
    Dims kept;
    for (int i = 0; i < shape.size(); ++i) {
      if (reduced[size_t(i)]) dims.push_back(i);
      if (!reduced[size_t(i)] || keepdim) kept.push_back(reduced[size_t(i)] ? 1 : shape[i]);
    }
    op.attributes.set(attr::dim_ints, dims);
    shape = kept;
  }
  op.outputs.assign(size_t(program.outputs), TensorDesc::dense(dtype, shape));
}

Schema make_pointwise() {
  Schema schema(
      "pointwise", "pointwise",
      "Evaluates expressions on tensors, element by element, with broadcasting and optional reductions.\n\n"
      "pointwise([a, b], \"y0 = x0 + s0 * x1\", scalars=[0.5]) has one statement for each output; with "
      "reductions=\"reduce_y0 += y0\" each output is reduced over dim.\n\n"
      "Names: x0, x1, ... the tensors; s0, s1, ... the scalars; outputs and temporaries of earlier "
      "statements; inf, nan, pi; in reductions reduce_y0, ... and count.  Operators, by falling precedence: "
      "unary - + !, * /, + -, comparisons (1 or 0), &&, ||, c ? a : b.  Functions: exp expm1 log log1p sqrt "
      "rsqrt tanh sigmoid erf erfc erfinv lgamma sin cos floor ceil round abs sign isnan max min pow fmod atan2 "
      "copysign "
      "where(c, a, b) clip(x, lowest, highest); of integers alone bitand bitor bitxor bitnot lshift rshift.\n\n"
      "Computes in f32 when a tensor or the result dtype is floating, or arithmetic says so, else in s64, where "
      "division truncates, a division by zero gives 0 (fmod: the dividend), overflow wraps, and a shift by a negative "
      "count or by more than 63 shifts all bits out.  What is computed in f32 is rounded to the even integer and "
      "saturated where the result dtype is an integer's.\n\n"
      "Returns the shape the tensors broadcast to by NumPy's rules, without the reduced dimensions.");
  schema.tensors("tensors", "x0, x1, ... of the expressions; broadcast against each other");
  schema.required(attr::expressions, "statements \"y0 = ...; y1 = ...\", one for each output");
  schema.attribute(
      attr::reductions, None{},
      "\"reduce_y0 += y0\" (also *=, max=, min=), one for each output; then \"y0 = sqrt(reduce_y0 / count)\"");
  schema.attribute(attr::dim_ints, None{}, "dimensions to reduce; None or none given: all");
  schema.attribute(attr::keepdim, false, "keep reduced dimensions with size 1");
  schema.attribute(attr::scalars, std::vector<double>{}, "s0, s1, ... of the expressions");
  schema.attribute(attr::dtype, None{}, "of the outputs; none: that of x0");
  schema.attribute(attr::arithmetic, None{}, "\"f32\" where all tensors are integers and real numbers are meant",
                   {"f32"});
  schema.result(Result("y").named_by(attr::dtype).like("tensors").over("tensors").repeated())
      .by_element(attr::reductions);
  schema.infer = infer_pointwise;
  schema.expression = [](const Op& op) -> ElementExpression {
    const bool elements = op.attributes.is_none(attr::reductions) && op.outputs.size() == 1;
    if (!elements || arithmetic_of(op, op.out().dtype) != Arithmetic::f32) return {};
    return {op.attributes[attr::expressions], op.attributes[attr::scalars],
            is_floating(op.out().dtype) || gives_bytes(op)};
  };
  schema.gradient = derive;
  schema.flops = [](const Op& op) {
    const Program program = program_of(op);
    std::vector<int> all;
    for (size_t i = 0; i < op.inputs.size(); ++i) all.push_back(int(i));
    double operations = double(program.reductions.size());
    for (const Node& node : program.elements.nodes) operations += is_leaf(node.function) ? 0 : 1;
    return operations * double(broadcast_shapes(op, all).product());
  };
  return schema;
}
PL_REGISTER_OP(make_pointwise);

}  // namespace

Arithmetic arithmetic_of(const Op& op) { return arithmetic_of(op, op.out().dtype); }

const char* name_of(Function function) { return kInfo[size_t(function)].name; }
int arity_of(Function function) { return kInfo[size_t(function)].arity; }
bool is_leaf(Function function) { return kInfo[size_t(function)].arity == 0; }
const char* name_of(Reduction reduction) { return kReductionNames[size_t(reduction)]; }

Program parse(std::string_view name, std::string_view expressions, std::string_view reductions, int inputs, int scalars,
              Arithmetic arithmetic) {
  Program program;
  program.arithmetic = arithmetic;
  program.inputs = inputs;
  Parser parser(name, program, scalars);
  parser.parse_expressions(expressions);
  if (!reductions.empty()) parser.parse_reductions(reductions);
  require(program.outputs > 0, pl::Code::invalid_argument, name,
          ": expressions defines no output, expected for instance \"y0 = x0 * x0\"");
  return program;
}

Program program_of(const Op& op) {
  const bool reduces = !op.attributes.is_none(attr::reductions);
  return parse(op.schema->name, op.attributes[attr::expressions], reduces ? op.attributes[attr::reductions] : "",
               int(op.inputs.size()), int(op.attributes[attr::scalars].size()), arithmetic_of(op));
}

}  // namespace pl::pointwise
