#include "core/attributes.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/dims.h"
#include "core/status.h"

namespace pl {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  for (int digits : {6, 15, 17}) {  // the shortest of these that reads back to the same value
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string result = text;
  if (result.find_first_of(".en") == std::string::npos) result += ".0";  // stays a float when read again
  return result;
}

template <class T, class Print>
std::string list_text(const std::vector<T>& values, Print print) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + print(values[i]);
  return text + "]";
}

bool is_word(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text)
    if (c == ' ' || c == '=' || c == '[' || c == ']' || c == ',' || c == '"' || c == '\\' ||
        std::iscntrl(static_cast<unsigned char>(c)))
      return false;
  return true;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Attributes run() {
    Attributes result;
    skip_spaces();
    while (at_ < text_.size()) {
      const size_t start = at_;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
      const std::string key(text_.substr(start, at_ - start));
      if (key.empty()) bad("expected a name");
      if (result.has(key)) bad("\"" + key + "\" is given twice");
      if (at_ == text_.size() || text_[at_] != '=') bad("expected '=' after \"" + key + "\"");
      ++at_;
      result.set(key, value());
      if (at_ < text_.size() && text_[at_] != ' ') bad("expected a space between attributes");
      skip_spaces();
    }
    return result;
  }

 private:
  [[noreturn]] void bad(const std::string& why) const {
    fail(Code::invalid_argument, "attributes \"", text_, "\": ", why, " at position ", at_);
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  AttributeValue value() {
    if (at_ < text_.size() && text_[at_] == '[') return list();
    if (at_ < text_.size() && text_[at_] == '"') return quoted();
    return scalar(word());
  }
  std::string word() {
    const size_t start = at_;
    while (at_ < text_.size() && is_word(text_.substr(at_, 1))) ++at_;
    if (start == at_) bad("expected a value");
    return std::string(text_.substr(start, at_ - start));
  }
  std::string quoted() {
    std::string result;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      result += text_[at_];
    }
    if (at_ == text_.size()) bad("the string does not end");
    ++at_;
    return result;
  }
  static AttributeValue scalar(const std::string& word) {
    if (word == "none") return None{};
    if (word == "true" || word == "false") return word == "true";
    char* end = nullptr;
    errno = 0;
    const long long integer = std::strtoll(word.c_str(), &end, 10);
    if (*end == 0) {
      require(errno == 0, Code::invalid_argument, "attributes: the integer ", word, " does not fit 64 bits");
      return int64_t(integer);
    }
    const bool numeric = std::isdigit(static_cast<unsigned char>(word[0])) || word[0] == '-' || word[0] == '+' ||
                         word[0] == '.' || word == "inf" || word == "nan";
    const double number = std::strtod(word.c_str(), &end);
    if (numeric && *end == 0) return number;
    return word;
  }
  AttributeValue list() {
    std::vector<int64_t> integers;
    std::vector<double> numbers;
    bool all_integers = true;
    ++at_;
    while (at_ < text_.size() && text_[at_] != ']') {
      if (!numbers.empty()) {
        if (text_[at_] != ',') bad("expected ',' in the list");
        ++at_;
      }
      const AttributeValue item = scalar(word());
      if (const auto* integer = std::get_if<int64_t>(&item)) {
        integers.push_back(*integer);
        numbers.push_back(double(*integer));
      } else if (const auto* number = std::get_if<double>(&item)) {
        all_integers = false;
        numbers.push_back(*number);
      } else {
        bad("a list holds numbers only");
      }
    }
    if (at_ == text_.size()) bad("the list does not end");
    ++at_;
    if (all_integers) return integers;
    return numbers;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string to_text(const AttributeValue& value) {
  struct Visitor {
    std::string operator()(None) const { return "none"; }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return number_text(v); }
    std::string operator()(const std::string& v) const {
      const bool plain = is_word(v) && std::holds_alternative<std::string>(Attributes::parse("v=" + v).begin()->second);
      if (plain) return v;
      std::string text = "\"";
      for (char c : v) text += (c == '"' || c == '\\' ? std::string("\\") : std::string()) + c;
      return text + "\"";
    }
    std::string operator()(const std::vector<int64_t>& v) const {
      return list_text(v, [](int64_t item) { return std::to_string(item); });
    }
    std::string operator()(const std::vector<double>& v) const { return list_text(v, number_text); }
  };
  return std::visit(Visitor{}, value);
}

const char* type_name(const AttributeValue& value) {
  constexpr const char* names[] = {"none", "bool", "int", "float", "string", "ints", "floats"};
  return names[value.index()];
}

Attributes Attributes::parse(std::string_view text) { return Parser(text).run(); }

const AttributeValue* Attributes::find(std::string_view key) const {
  auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

void Attributes::set(std::string_view key, AttributeValue value) { values_[std::string(key)] = std::move(value); }

void Attributes::erase(std::string_view key) {
  auto it = values_.find(key);
  if (it != values_.end()) values_.erase(it);
}

const AttributeValue& Attributes::at(std::string_view key) const {
  auto it = values_.find(key);
  require(it != values_.end(), Code::internal, "attribute \"", key, "\" was not filled in");
  return it->second;
}

namespace {
template <class T>
const T& typed(const AttributeValue& value, std::string_view key, const char* expected) {
  const T* result = std::get_if<T>(&value);
  require(result != nullptr, Code::internal, "attribute \"", key, "\" is ", type_name(value), ", read as ", expected);
  return *result;
}
}  // namespace

bool Attributes::is_none(std::string_view key) const { return std::holds_alternative<None>(at(key)); }
bool Attributes::flag(std::string_view key) const { return typed<bool>(at(key), key, "bool"); }
int64_t Attributes::integer(std::string_view key) const { return typed<int64_t>(at(key), key, "int"); }
double Attributes::number(std::string_view key) const {
  const AttributeValue& value = at(key);
  if (const auto* integer = std::get_if<int64_t>(&value)) return double(*integer);
  return typed<double>(value, key, "float");
}
const std::string& Attributes::text(std::string_view key) const { return typed<std::string>(at(key), key, "string"); }
const std::vector<int64_t>& Attributes::integers(std::string_view key) const {
  return typed<std::vector<int64_t>>(at(key), key, "ints");
}
const std::vector<double>& Attributes::numbers(std::string_view key) const {
  return typed<std::vector<double>>(at(key), key, "floats");
}

std::string Attributes::str() const {
  std::string text;
  for (const auto& [key, value] : values_) text += (text.empty() ? "" : " ") + key + "=" + to_text(value);
  return text;
}

uint64_t Attributes::hash() const {
  uint64_t seed = values_.size();
  for (char c : str()) seed = hash_mix(seed, static_cast<unsigned char>(c));
  return seed;
}

}  // namespace pl
