// Errors: one exception type inside the library, one status code at the C boundary.
//
// An error message names the op, the argument, what was expected and what came, in that order:
//   conv2d: weight.ic is 30, expected 32 (x.c / groups)
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

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

// Concatenates its arguments as an output stream would print them.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(Code code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

// Throws Error(code, parts...) unless `condition` holds.  The message is only built on failure.
template <class... Parts>
void require(bool condition, Code code, const Parts&... parts) {
  if (__builtin_expect(!condition, 0)) fail(code, parts...);
}

}  // namespace pl
