// The part of tests/c/check.h that need not be compiled with each test.
#include "../check.h"

#include <exception>

namespace check_cpp {

void call(void (*body)(void)) {
  try {
    body();
  } catch (const Ended&) {
  } catch (const std::exception& error) {
    std::fprintf(stderr, "an exception left the case: %s\n", error.what());
    check_count_failure();
  }
}

static std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string show(bool value) { return value ? "true" : "false"; }
std::string show(long long value) { return std::to_string(value); }
std::string show(unsigned long long value) { return std::to_string(value); }
std::string show(double value) {
  const std::string text = formatted("%.9g", value);
  return std::strtod(text.c_str(), nullptr) == value ? text : formatted("%.17g", value);
}
std::string show(const void* value) {
  if (!value) return "nullptr";
  char text[32];
  std::snprintf(text, sizeof text, "%p", value);
  return text;
}
std::string show(const char* value) { return value ? show(std::string(value)) : "nullptr"; }
std::string show(const std::string& value) {
  constexpr size_t kMost = 2000;
  return '"' + (value.size() > kMost ? value.substr(0, kMost) + "..." : value) + '"';
}

std::string& compared() {
  thread_local std::string text;
  return text;
}

void failed(const char* file, int line, const char* condition, bool with_values) {
  check_failed(file, line, condition, with_values ? compared().c_str() : nullptr);
}

}  // namespace check_cpp
