// Errors: one exception type inside the library, one status code at the C boundary.
//
// An error message names the op, the argument, what was expected and what came, in that order:
//   conv2d: weight.ic is 30, expected 32 (x.c / groups)
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace pl {

// Mirrors pl_status in pylayout.h; abi/guard.h holds the two against each other.
enum class Code {
  ok = 0,
  invalid_argument = 1,  // wrong type, unknown attribute, value out of range, freed handle
  shape = 2,             // a tensor's rank or size does not fit
  layout = 3,            // a layout that does not parse, or does not fit the rank
  device = 4,            // unknown device, a device that failed, tensors on the wrong device
  unsupported = 5,       // valid, but nothing here can do it
  out_of_memory = 6,     // after every cache was released
  io = 7,                // a file could not be read or written
  internal = 8,          // a defect of pylayout
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

// A part of a text: a number, a character, text, or what has a str().  It refers to what it is made of.  Texts are made
// of parts by plain functions, so that a message of other types is no other function to compile.
class TextPart {
 public:
  template <class T>
  TextPart(const T& value) {
    if constexpr (std::is_same_v<T, char>) {
      kind_ = Kind::character;
      character_ = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::number;
      number_ = double(value);
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      kind_ = Kind::integer;
      integer_ = value;
    } else if constexpr (std::is_integral_v<T>) {  // of bool: 0 or 1
      kind_ = Kind::count;
      count_ = value;
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      kind_ = Kind::text;
      text_ = value;
    } else if constexpr (std::is_pointer_v<T>) {
      kind_ = Kind::address;
      count_ = reinterpret_cast<uintptr_t>(value);
    } else {
      kind_ = Kind::object;
      object_ = {&value, [](const void* object) { return static_cast<const T*>(object)->str(); }};
    }
  }
  void append_to(std::string& text) const;

 private:
  enum class Kind : uint8_t { character, integer, count, address, number, text, object };
  struct Object {
    const void* value;
    std::string (*str)(const void*);
  };
  Kind kind_;
  union {
    char character_;
    int64_t integer_;
    uint64_t count_;
    double number_;
    std::string_view text_;
    Object object_;
  };
};

// The parts one behind the other, numbers as an output stream prints them: six digits of those that are not whole.
std::string join_text(const TextPart* parts, size_t count);
[[noreturn]] void fail_with(Code code, const TextPart* parts, size_t count);

template <class... Parts>
std::string concat(const Parts&... parts) {
  const TextPart list[] = {TextPart(parts)...};
  return join_text(list, sizeof...(parts));
}

template <class... Parts>
[[noreturn]] void fail(Code code, const Parts&... parts) {
  const TextPart list[] = {TextPart(parts)...};
  fail_with(code, list, sizeof...(parts));
}

// Throws Error(code, parts...) unless `condition` holds.  The message is only built on failure.
template <class... Parts>
void require(bool condition, Code code, const Parts&... parts) {
  if (__builtin_expect(!condition, 0)) fail(code, parts...);
}

}  // namespace pl
