// Records of text: the form of files that hold plans and choices.
//
// A file begins with a line that says what it is; then come records, one a line, fields separated by tabs; tabs,
// newlines and backslashes are escaped.  `end <tab> checksum of everything above` ends them; anything may follow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace pl {

std::string escaped(std::string_view text);

template <class... Fields>
std::string record(const Fields&... fields) {
  std::string line;
  ((line += (line.empty() ? "" : "\t") + escaped(concat(fields))), ...);
  return line + "\n";
}

// "1,2,3"
std::string joined(const std::vector<int64_t>& values);

// What was written so far, with the record that ends it.
std::string sealed(std::string text);

// Reads such a file; trusts nothing in it.
class RecordReader {
 public:
  // `magic` is the first line, with its newline; `what` is what messages call the file.
  RecordReader(std::string_view magic, std::string what, std::string bytes);

  // Throws Error(invalid_argument) that names the file.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(Code::invalid_argument, what_, ": ", parts...);
  }

  // The records up to the last, as fields without escapes, each of at least one.
  const std::vector<std::vector<std::string>>& lines() const { return lines_; }
  std::string_view rest() const { return std::string_view(bytes_).substr(rest_); }  // what follows them

  void expect_fields(const std::vector<std::string>& line, size_t count) const;
  int64_t integer(const std::string& text, int64_t lowest, int64_t highest, const char* what) const;
  std::vector<int64_t> integers(const std::string& text, int64_t lowest, int64_t highest, const char* what) const;

 private:
  std::string what_, bytes_;
  std::vector<std::vector<std::string>> lines_;
  size_t rest_ = 0;
};

}  // namespace pl
