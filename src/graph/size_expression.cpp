#include "graph/size_expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/status.h"

namespace pl {

class SizeExpression::Parser {
 public:
  Parser(std::string_view text, const std::function<SizeSource(const std::string&)>& axis) : text_(text), axis_(axis) {}

  SizeExpression parse() {
    sum(0);
    if (at_ != text_.size()) refuse("an operator");
    return std::move(result_);
  }

 private:
  static constexpr int kDeepest = 64;  // brackets within each other

  [[noreturn]] void refuse(const char* expected) const {
    fail(Code::invalid_argument, "size \"", text_.substr(0, 200), "\": expected ", expected, " at character ", at_);
  }

  bool takes(char c) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    const char text[] = {c, 0};
    if (!takes(c)) refuse(text);
  }

  void put(Kind kind) { result_.terms_.push_back({kind, 0, {}}); }

  int64_t number() {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc()) refuse("a number of at most 63 bits");
    at_ = size_t(end - text_.data());
    return value;
  }

  void sum(int depth) {
    product(depth);
    for (;;) {
      const bool adds = takes('+');
      if (!adds && !takes('-')) return;
      product(depth);
      put(adds ? Kind::add : Kind::subtract);
    }
  }

  void product(int depth) {
    factor(depth);
    for (;;) {
      const Kind kind = takes('*')   ? Kind::multiply
                        : takes('/') ? Kind::divide
                        : takes('%') ? Kind::remainder
                                     : Kind::number;
      if (kind == Kind::number) return;
      factor(depth);
      put(kind);
    }
  }

  void factor(int depth) {
    if (depth > kDeepest) refuse("fewer brackets within each other");
    if (takes('-')) {
      put(Kind::number);
      factor(depth + 1);
      return put(Kind::subtract);
    }
    if (takes('(')) {
      sum(depth + 1);
      return expect(')');
    }
    if (takes('#')) {
      Term term;
      term.kind = Kind::source;
      const int64_t value = number();
      expect('.');
      const int64_t dim = number();
      if (value < 0 || value > INT32_MAX || dim < 0 || dim > 63) refuse("a value and one of its dimensions before");
      term.source = {ValueId(value), int(dim)};
      return result_.terms_.push_back(term);
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      Term term;
      term.number = number();
      return result_.terms_.push_back(term);
    }
    const size_t begin = at_;
    const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    if (at_ == begin) refuse("a number, an axis, #value.dimension, min, max, broadcast or (");
    const std::string name(text_.substr(begin, at_ - begin));
    const Kind kind = name == "min"         ? Kind::least
                      : name == "max"       ? Kind::most
                      : name == "broadcast" ? Kind::broadcast
                                            : Kind::number;
    if (kind != Kind::number && takes('(')) {
      sum(depth + 1);
      expect(',');
      sum(depth + 1);
      expect(')');
      return put(kind);
    }
    Term term;
    term.kind = Kind::source;
    term.source = axis_(name);
    result_.terms_.push_back(term);
  }

  std::string_view text_;
  const std::function<SizeSource(const std::string&)>& axis_;
  size_t at_ = 0;
  SizeExpression result_;
};

SizeExpression SizeExpression::parse(std::string_view text, const std::function<SizeSource(const std::string&)>& axis) {
  return Parser(text, axis).parse();
}

int64_t SizeExpression::evaluate(const std::function<int64_t(const SizeSource&)>& size) const {
  std::vector<int64_t> stack;
  for (const Term& term : terms_) {
    if (term.kind == Kind::number || term.kind == Kind::source) {
      stack.push_back(term.kind == Kind::number ? term.number : size(term.source));
      continue;
    }
    const int64_t b = stack.back();
    stack.pop_back();
    int64_t& a = stack.back();
    bool overflow = false;
    switch (term.kind) {
      case Kind::add: overflow = __builtin_add_overflow(a, b, &a); break;
      case Kind::subtract: overflow = __builtin_sub_overflow(a, b, &a); break;
      case Kind::multiply: overflow = __builtin_mul_overflow(a, b, &a); break;
      case Kind::divide:
      case Kind::remainder: {
        if (b == 0) fail(Code::shape, "size ", str(), ": the divisor is 0");
        if (b == -1) {  // the least number has no opposite
          overflow = term.kind == Kind::divide && __builtin_sub_overflow(int64_t(0), a, &a);
          if (term.kind == Kind::remainder) a = 0;
          break;
        }
        const int64_t rest = a % b, below = rest != 0 && (rest < 0) != (b < 0);
        a = term.kind == Kind::divide ? a / b - below : rest + below * b;
        break;
      }
      case Kind::least: a = std::min(a, b); break;
      case Kind::most: a = std::max(a, b); break;
      case Kind::broadcast:
        if (a != b && a != 1 && b != 1)
          fail(Code::shape, "size ", str(), ": sizes ", a, " and ", b, " do not broadcast");
        if (a == 1) a = b;
        break;
      case Kind::number:
      case Kind::source: break;
    }
    if (overflow) fail(Code::shape, "size ", str(), ": needs more than 64 bits");
  }
  return stack.empty() ? 0 : stack.back();
}

SizeExpression SizeExpression::renumbered(const std::function<ValueId(ValueId)>& number) const {
  SizeExpression made = *this;
  for (Term& term : made.terms_)
    if (term.kind == Kind::source) term.source.value = number(term.source.value);
  return made;
}

SizeExpression SizeExpression::with_numbers(
    const std::function<std::optional<int64_t>(const SizeSource&)>& known) const {
  SizeExpression made = *this;
  for (Term& term : made.terms_) {
    if (term.kind != Kind::source) continue;
    if (const std::optional<int64_t> size = known(term.source)) term = Term{Kind::number, *size, {}};
  }
  return made;
}

void SizeExpression::visit_sources(const std::function<void(const SizeSource&)>& visit) const {
  for (const Term& term : terms_)
    if (term.kind == Kind::source) visit(term.source);
}

std::string SizeExpression::str() const {
  std::vector<std::string> stack;
  for (const Term& term : terms_) {
    if (term.kind == Kind::number) {
      stack.push_back(std::to_string(term.number));
    } else if (term.kind == Kind::source) {
      stack.push_back("#" + std::to_string(term.source.value) + "." + std::to_string(term.source.dim));
    } else {
      const std::string b = std::move(stack.back());
      stack.pop_back();
      std::string& a = stack.back();
      const auto between = [&](const char* sign) { return "(" + a + sign + b + ")"; };
      switch (term.kind) {
        case Kind::add: a = between("+"); break;
        case Kind::subtract: a = between("-"); break;
        case Kind::multiply: a = between("*"); break;
        case Kind::divide: a = between("/"); break;
        case Kind::remainder: a = between("%"); break;
        case Kind::least: a = "min(" + a + "," + b + ")"; break;
        case Kind::most: a = "max(" + a + "," + b + ")"; break;
        case Kind::broadcast: a = "broadcast(" + a + "," + b + ")"; break;
        case Kind::number:
        case Kind::source: break;
      }
    }
  }
  return stack.empty() ? "0" : stack.back();
}

}  // namespace pl
