#include "core/status.h"

#include <charconv>

namespace pl {

void TextPart::append_to(std::string& text) const {
  char digits[32];
  std::to_chars_result written{digits, std::errc()};
  switch (kind_) {
    case Kind::character: text += character_; return;
    case Kind::text: text += text_; return;
    case Kind::object: text += object_.str(object_.value); return;
    case Kind::integer: written = std::to_chars(digits, digits + sizeof digits, integer_); break;
    case Kind::count: written = std::to_chars(digits, digits + sizeof digits, count_); break;
    case Kind::address:
      text += "0x";
      written = std::to_chars(digits, digits + sizeof digits, count_, 16);
      break;
    case Kind::number:
      written = std::to_chars(digits, digits + sizeof digits, number_, std::chars_format::general, 6);
      break;
  }
  text.append(digits, written.ptr);
}

std::string join_text(const TextPart* parts, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) parts[i].append_to(text);
  return text;
}

void fail_with(Code code, const TextPart* parts, size_t count) { throw Error(code, join_text(parts, count)); }

}  // namespace pl
