#include "ops/pointwise_text.h"

#include <cctype>
#include <cmath>
#include <cstdio>

namespace pl::pointwise {

std::string text_of(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "(-inf)";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text[0] == '-' ? concat("(", text, ")") : text;
}

std::string Statements::define(const std::string& expression) {
  const std::string name = concat("t", count_++);
  text_ += name + " = " + expression + "; ";
  return name;
}

void Statements::result(int index, const std::string& expression) {
  text_ += concat("y", index, " = ", expression, "; ");
}

std::vector<std::string> write(const Code& code, const std::function<std::string(const Node&)>& leaf, Statements& out) {
  std::vector<std::string> called;
  for (const Node& node : code.nodes) {
    if (is_leaf(node.function)) {
      called.push_back(node.function == Function::constant ? text_of(node.constant) : leaf(node));
      continue;
    }
    const auto argument = [&](int i) { return called[size_t(node.arguments[i])]; };
    const std::string name = name_of(node.function);
    const bool sign = !std::isalpha(static_cast<unsigned char>(name[0]));
    std::string expression;
    if (sign && arity_of(node.function) == 1) {
      expression = name + argument(0);
    } else if (sign) {
      expression = argument(0) + " " + name + " " + argument(1);
    } else {
      expression = name + "(" + argument(0);
      for (int i = 1; i < arity_of(node.function); ++i) expression += ", " + argument(i);
      expression += ")";
    }
    called.push_back(out.define(expression));
  }
  return called;
}

}  // namespace pl::pointwise
