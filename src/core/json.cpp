#include "core/json.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace pl {

namespace {

// Length of the valid UTF-8 sequence at the start of `text` (not empty), or 0 (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF).
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto tail = [&](size_t i) { return (at(i) & 0xc0u) == 0x80u; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if (first == 0xe0 && at(1) < 0xa0) return 0;
    if (first == 0xed && at(1) > 0x9f) return 0;
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (first == 0xf0 && at(1) < 0x90) return 0;
    if (first == 0xf4 && at(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

void Json::quote(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    const unsigned char c = static_cast<unsigned char>(text[0]);
    size_t used = 1;
    switch (c) {
      case '"': text_ += "\\\""; break;
      case '\\': text_ += "\\\\"; break;
      case '\n': text_ += "\\n"; break;
      case '\r': text_ += "\\r"; break;
      case '\t': text_ += "\\t"; break;
      default:
        if (c < 0x20 || c == 0x7f) {
          char escape[8];
          std::snprintf(escape, sizeof escape, "\\u%04x", c);
          text_ += escape;
        } else if ((used = utf8_length(text)) == 0) {
          used = 1;
          text_ += "\xef\xbf\xbd";
        } else {
          text_ += text.substr(0, used);
        }
    }
    text.remove_prefix(used);
  }
  text_ += '"';
}

void Json::separate() {
  if (after_key_) {
    after_key_ = false;
  } else if (!levels_.empty()) {
    if (!levels_.back().empty) text_ += ", ";
    levels_.back().empty = false;
  }
}

Json& Json::open(char opening, char closing) {
  separate();
  text_ += opening;
  levels_.push_back({closing});
  return *this;
}

Json& Json::end() {
  text_ += levels_.back().closing;
  levels_.pop_back();
  return *this;
}

Json& Json::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

Json& Json::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

Json& Json::null() { return raw("null"); }

Json& Json::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

Json& Json::value(double number) {
  if (!std::isfinite(number)) return null();
  if (number == 0 && std::signbit(number)) return raw("-0.0");  // without a point it is read as an integer, which is 0
  char digits[32];
  const auto result = std::to_chars(digits, digits + sizeof digits, number);  // the shortest that reads back equal
  return raw(std::string_view(digits, size_t(result.ptr - digits)));
}

Json& Json::value(const AttributeValue& attribute) {
  std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, None>) {
          null();
        } else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, PostOps>) {
          v.empty() ? null() : value(std::string_view(to_text(v)));
        } else {
          value(v);
        }
      },
      attribute);
  return *this;
}

}  // namespace pl
