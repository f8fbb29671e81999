// Json: writes JSON text, in order, without building a tree.
//
//   Json json;
//   json.object().field("op", "conv2d").key("layouts").list().value("NCHW").value("NHWC").end().end();
//   json.str()  ->  {"op": "conv2d", "layouts": ["NCHW", "NHWC"]}
//
// Commas, quotes and escapes are its business.  Bytes that are not UTF-8 become U+FFFD; NaN and infinities,
// which JSON has not, become null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/attributes.h"

namespace pl {

class Json {
 public:
  Json& object() { return open('{', '}'); }
  Json& list() { return open('[', ']'); }
  Json& end();  // of the innermost object or list
  Json& key(std::string_view name);

  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(const std::string& text) { return value(std::string_view(text)); }
  Json& value(double number);
  Json& value(const AttributeValue& attribute);  // None is null
  Json& null();
  // Integers of any width, and bool.
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  Json& value(T number) {
    if constexpr (std::is_same_v<T, bool>) return raw(number ? "true" : "false");
    return raw(std::to_string(number));
  }
  template <class T>
  Json& value(const std::vector<T>& values) {
    list();
    for (const T& v : values) value(v);
    return end();
  }

  template <class T>
  Json& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }
  // Text that is JSON already, where a value is due.
  Json& raw(std::string_view json);

  const std::string& str() const { return text_; }  // whole once every object and list was ended

 private:
  struct Level {
    char closing;
    bool empty = true;
  };
  Json& open(char opening, char closing);
  void separate();  // the comma before a new key or value
  void quote(std::string_view text);

  std::string text_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace pl
