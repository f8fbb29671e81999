#include "core/post_ops.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>

#include "core/attributes.h"
#include "core/dims.h"
#include "core/status.h"

namespace pl {
namespace {

class PostOpsParser {
 public:
  explicit PostOpsParser(std::string_view text) : text_(text) {}

  PostOps run() {
    PostOps list;
    skip_spaces();
    if (at_ == text_.size() || text_ == "none") return list;
    while (true) {
      list.push_back(step());
      skip_spaces();
      if (at_ == text_.size()) return list;
      expect(',');
      skip_spaces();
    }
  }

 private:
  [[noreturn]] void bad(const std::string& why) const {
    fail(Code::invalid_argument, "\"", text_, "\": ", why, " at position ", at_);
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void expect(char c) {
    if (!at(c)) bad(std::string("expected '") + c + "'");
    ++at_;
  }
  std::string word(const char* what) {
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    if (start == at_) bad(std::string("expected ") + what);
    return std::string(text_.substr(start, at_ - start));
  }
  double number() {
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' && text_[at_] != ' ') ++at_;
    const std::string digits(text_.substr(start, at_ - start));
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (digits.empty() || *end) {
      at_ = start;
      bad("expected a number");
    }
    return value;
  }

  PostOp step() {
    PostOp result;
    result.name = word("a function, scale, add or multiply");
    const bool adds = result.name == "add", multiplies = result.name == "multiply", scales = result.name == "scale";
    if (adds || multiplies) {
      result.kind = adds ? PostOp::Kind::add : PostOp::Kind::multiply;
      expect('(');
      skip_spaces();
      result.name = word("the name of an input");
      skip_spaces();
      expect(')');
      return result;
    }
    if (scales) {
      result.kind = PostOp::Kind::scale;
      if (!at('(')) expect('(');
    }
    if (!at('(')) return result;
    do {
      ++at_;
      skip_spaces();
      result.parameters.push_back(number());
      skip_spaces();
    } while (at(','));
    expect(')');
    return result;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

PostOp::PostOp() = default;
PostOp::~PostOp() = default;
PostOp::PostOp(const PostOp& other) = default;
PostOp::PostOp(PostOp&& other) noexcept = default;
PostOp& PostOp::operator=(const PostOp& other) = default;
PostOp& PostOp::operator=(PostOp&& other) noexcept = default;
PostOp::PostOp(Kind kind, std::string name, std::vector<double> parameters)
    : kind(kind), name(std::move(name)), parameters(std::move(parameters)) {}
PostOp PostOp::function(std::string name, std::vector<double> parameters) {
  return {Kind::function, std::move(name), std::move(parameters)};
}
PostOp PostOp::scale(double number) { return {Kind::scale, "scale", {number}}; }
PostOp PostOp::add(std::string input) { return {Kind::add, std::move(input), {}}; }
PostOp PostOp::multiply(std::string input) { return {Kind::multiply, std::move(input), {}}; }

std::string PostOp::str() const {
  if (kind == Kind::add) return "add(" + name + ")";
  if (kind == Kind::multiply) return "multiply(" + name + ")";
  std::string text = name;
  for (size_t i = 0; i < parameters.size(); ++i) text += (i ? ", " : "(") + to_text(AttributeValue(parameters[i]));
  return parameters.empty() ? text : text + ")";
}

bool operator==(const PostOp& a, const PostOp& b) {
  return a.kind == b.kind && a.name == b.name &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), same_bits);
}

std::string to_text(const PostOps& list) {
  if (list.empty()) return "none";
  std::string text;
  for (const PostOp& step : list) text += (text.empty() ? "" : ", ") + step.str();
  return text;
}

PostOps parse_post_ops(std::string_view text) { return PostOpsParser(text).run(); }

uint64_t hash_of(const PostOps& list, uint64_t seed) {
  seed = hash_mix(seed, list.size());
  for (const PostOp& step : list) {
    seed = hash_mix(hash_mix(seed, uint64_t(step.kind)), std::hash<std::string>()(step.name));
    for (double parameter : step.parameters) seed = hash_mix(seed, bits_of(parameter));
  }
  return seed;
}

}  // namespace pl
