#include "graph/records.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/files.h"

namespace pl {
namespace {

std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    const char c = text[++i];
    result += c == 't' ? '\t' : c == 'n' ? '\n' : c;
  }
  return result;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '\\')
      result += "\\\\";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result;
}

std::string joined(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

std::string sealed(std::string text) {
  text += record("end", hex(checksum(text)));
  return text;
}

RecordReader::RecordReader(std::string_view magic, std::string what, std::string bytes)
    : what_(std::move(what)), bytes_(std::move(bytes)) {
  if (bytes_.compare(0, magic.size(), magic) != 0) refuse("is not a plan of this version of pylayout");
  size_t at = magic.size();
  for (;;) {
    const size_t stop = bytes_.find('\n', at);
    if (stop == std::string::npos) refuse("ends early");
    const std::string_view line(bytes_.data() + at, stop - at);
    std::vector<std::string> fields;
    for (size_t begin = 0; begin <= line.size();) {
      const size_t tab = std::min(line.find('\t', begin), line.size());
      fields.push_back(unescaped(line.substr(begin, tab - begin)));
      begin = tab + 1;
    }
    if (fields[0] == "end") {
      if (fields.size() != 2 || fields[1] != hex(checksum(std::string_view(bytes_.data(), at))))
        refuse("is damaged: the checksum of its header does not fit");
      rest_ = stop + 1;
      return;
    }
    lines_.push_back(std::move(fields));
    at = stop + 1;
  }
}

void RecordReader::expect_fields(const std::vector<std::string>& line, size_t count) const {
  if (line.size() != count) refuse("a record \"", line[0], "\" has ", line.size(), " fields, expected ", count);
}

int64_t RecordReader::integer(const std::string& text, int64_t lowest, int64_t highest, const char* what) const {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < lowest || value > highest)
    refuse(what, " is \"", text, "\", expected ", lowest, " to ", highest);
  return value;
}

std::vector<int64_t> RecordReader::integers(const std::string& text, int64_t lowest, int64_t highest,
                                            const char* what) const {
  std::vector<int64_t> values;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) values.push_back(integer(part, lowest, highest, what));
  return values;
}

}  // namespace pl
