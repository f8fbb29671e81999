// Attributes: the named parameters of an op, as data.
//
// Text form, used by the C ABI, the cost database and messages:  key=value key=value ...
//   stride=[2,2] padding=1 alpha=0.01 ceil_mode=true activation=relu eps=none
// Keys are sorted, so equal attributes have equal text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pl {

struct None {
  friend bool operator==(None, None) { return true; }
};
using AttributeValue =
    std::variant<None, bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

std::string to_text(const AttributeValue& value);
const char* type_name(const AttributeValue& value);  // "none", "bool", "int", "float", "string", "ints", "floats"

class Attributes {
 public:
  Attributes() = default;
  static Attributes parse(std::string_view text);  // throws Error(invalid_argument) with the position

  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  const AttributeValue* find(std::string_view key) const;
  void set(std::string_view key, AttributeValue value);
  void erase(std::string_view key);

  // Typed reads; the schema has already filled defaults and checked types, so a miss is a defect.
  bool is_none(std::string_view key) const;
  bool flag(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;  // accepts an int
  const std::string& text(std::string_view key) const;
  const std::vector<int64_t>& integers(std::string_view key) const;
  const std::vector<double>& numbers(std::string_view key) const;

  std::string str() const;
  uint64_t hash() const;
  bool empty() const { return values_.empty(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  friend bool operator==(const Attributes& a, const Attributes& b) { return a.values_ == b.values_; }

 private:
  const AttributeValue& at(std::string_view key) const;
  std::map<std::string, AttributeValue, std::less<>> values_;
};

}  // namespace pl
