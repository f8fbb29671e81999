#include "providers/opencl/program/sources.h"

#include <set>

#include "core/status.h"
#include "providers/opencl/program/embedded_kernels.h"

namespace pl::opencl {
namespace {

// If `line` is an #include of a quoted file, puts its name in `file`.
bool parse_include(std::string_view line, std::string& file) {
  auto skip_blanks = [&line](size_t at) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
    return at;
  };
  size_t at = skip_blanks(0);
  if (at >= line.size() || line[at] != '#') return false;
  at = skip_blanks(at + 1);
  constexpr std::string_view word = "include";
  if (line.substr(at, word.size()) != word) return false;
  at = skip_blanks(at + word.size());
  if (at >= line.size() || line[at] != '"') return false;
  size_t end = line.find('"', at + 1);
  if (end == std::string_view::npos) return false;
  file = std::string(line.substr(at + 1, end - at - 1));
  return true;
}

void append_line_directive(std::string& out, int line, const std::string& path) {
  out += "#line " + std::to_string(line) + " \"" + path + "\"\n";
}

void expand(const std::string& path, const std::string& included_by, std::set<std::string>& seen, std::string& out);

void append_expanded(const std::string& path, std::string_view rest, std::set<std::string>& seen, std::string& out) {
  append_line_directive(out, 1, path);
  std::string file;
  for (int number = 1; !rest.empty(); ++number) {
    size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (parse_include(line, file)) {
      expand(file, path, seen, out);
      append_line_directive(out, number + 1, path);
    } else {
      out.append(line);
      out += '\n';
    }
  }
}

void expand(const std::string& path, const std::string& included_by, std::set<std::string>& seen, std::string& out) {
  if (!seen.insert(path).second) return;
  const char* text = find_embedded(path);
  require(text != nullptr, Code::internal, "kernel source ", path,
          included_by.empty() ? "" : ", included by " + included_by + ",", " is not part of this library");
  append_expanded(path, text, seen, out);
}

}  // namespace

const char* find_embedded(std::string_view path) {
  size_t low = 0, high = embedded_file_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = path.compare(embedded_files[middle].path);
    if (order == 0) return embedded_files[middle].text;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return nullptr;
}

std::string expand_source(const std::string& path) {
  std::set<std::string> seen;
  std::string out;
  expand(path, "", seen, out);
  return out;
}

std::string expand_includes(const std::string& name, std::string_view text) {
  std::set<std::string> seen;
  std::string out;
  append_expanded(name, text, seen, out);
  return out;
}

}  // namespace pl::opencl
