#include "providers/opencl/tuning/tuned_table.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "core/files.h"
#include "core/paths.h"
#include "core/status.h"
#include "providers/opencl/program/embedded_kernels.h"

namespace pl::opencl {
namespace {

// Of the nearest class; farther ones say less than the default derived from the device.
constexpr int kFarthest = 4;
constexpr size_t kMostBytes = 1 << 20;  // of a file: what is larger is no table
constexpr size_t kMostProblems = 5;     // named of a file

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

bool parse_power(const std::string& text, const char* name, int& value) {
  if (text == std::string(name) + "=*") {
    value = TunedEntry::kAnySize;
    return true;
  }
  int end = 0;
  const std::string format = std::string(name) + "=2^%d%n";
  return std::sscanf(text.c_str(), format.c_str(), &value, &end) == 1 && size_t(end) == text.size() && value >= 0 &&
         value < 63;
}

std::optional<Point> parse_point(const std::string& text) {
  std::vector<std::pair<std::string, int>> values;
  for (const std::string& word : words(text)) {
    const size_t equals = word.find('=');
    int value = 0, end = 0;
    if (equals == std::string::npos || equals == 0) return std::nullopt;
    if (std::sscanf(word.c_str() + equals + 1, "%d%n", &value, &end) != 1 || size_t(end) != word.size() - equals - 1)
      return std::nullopt;
    values.emplace_back(word.substr(0, equals), value);
  }
  if (values.empty()) return std::nullopt;
  return Point(std::move(values));
}

struct Tables {
  std::vector<TunedEntry> own, shipped;
  std::vector<std::string> problems;

  Tables() {
    for (size_t i = 0; i < embedded_file_count; ++i) {
      const std::string path = embedded_files[i].path;
      if (is_tuned_table(path))
        for (TunedEntry& entry : parse_tuned("kernels/" + path, embedded_files[i].text, problems))
          shipped.push_back(std::move(entry));
    }
    const std::string base = default_cache_dir();
    if (base.empty()) return;
    std::error_code error;
    std::vector<std::string> files;
    for (std::filesystem::directory_iterator file(base + "/tuned", error), end; !error && file != end;
         file.increment(error))
      if (file->path().extension() == ".tuned") files.push_back(file->path().string());
    std::sort(files.begin(), files.end());
    for (const std::string& path : files) {
      const auto size = std::filesystem::is_regular_file(path, error) ? std::filesystem::file_size(path, error) : 0;
      const auto text = !error && size > 0 && size <= kMostBytes ? read_file(path) : std::nullopt;
      if (text) {
        for (TunedEntry& entry : parse_tuned(path, *text, problems)) own.push_back(std::move(entry));
      } else {
        problems.push_back(path + ": is not a table: expected a file of 1 byte to 1 MiB that can be read");
      }
    }
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

// How many words name the device; nothing if one of them does not fit.
std::optional<size_t> match(const std::string& pattern, const OpenclDevice& device) {
  const std::string name = lower(device.capabilities().vendor + " " + device.capabilities().name);
  const std::vector<std::string> list = words(lower(pattern));
  for (const std::string& word : list)
    if (name.find(word) == std::string::npos) return std::nullopt;
  return list.size();
}

}  // namespace

bool is_tuned_table(const std::string& path) {
  const std::string ending = ".tuned";
  return path.size() > ending.size() && path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
}

std::vector<TunedEntry> parse_tuned(const std::string& name, const std::string& text,
                                    std::vector<std::string>& problems) {
  std::vector<TunedEntry> entries;
  std::istringstream stream(text);
  std::string device;
  int number = 0;
  size_t unsaid = 0, said = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const auto complain = [&](std::string what) {
      if (said++ >= kMostProblems) return void(++unsaid);
      for (char& c : what)  // it may quote a damaged file
        if (c < ' ' || c > '~') c = '?';
      problems.push_back(concat(name, ":", number, ": ", what));
    };
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> parts = words(line);
    if (parts.empty()) continue;
    if (parts[0] == "device") {
      device.clear();
      for (size_t i = 1; i < parts.size(); ++i) device += (i > 1 ? " " : "") + parts[i];
      if (device.empty()) complain("expected words of the device's name after `device`");
      continue;
    }
    const size_t colon = line.find(':');
    const std::vector<std::string> where = words(line.substr(0, colon));
    TunedEntry entry;
    const auto point = colon == std::string::npos ? std::nullopt : parse_point(line.substr(colon + 1));
    if (where.size() != 6 || !point || !parse_power(where[3], "rows", entry.shapes.rows) ||
        !parse_power(where[4], "columns", entry.shapes.columns) ||
        !parse_power(where[5], "terms", entry.shapes.terms)) {
      complain("expected FAMILY DTYPE KIND rows=2^N columns=2^N terms=2^N: NAME=VALUE ...");
      continue;
    }
    entry.any_dtype = where[1] == "*";
    try {
      if (!entry.any_dtype) entry.shapes.dtype = parse_dtype(where[1]);
    } catch (const Error& error) {
      complain(error.what());
      continue;
    }
    if (device.empty()) {
      complain("there is no `device` line before it");
      continue;
    }
    entry.place = concat(name, ":", number);
    entry.device = device;
    entry.family = where[0];
    entry.shapes.kind = where[2];
    entry.point = *point;
    entries.push_back(std::move(entry));
  }
  if (unsaid) problems.push_back(concat(name, ": ", unsaid, " more lines were not understood"));
  return entries;
}

std::optional<int> TunedEntry::distance(const ShapeClass& wanted) const {
  ShapeClass filled = shapes;
  bool open = any_dtype;
  if (any_dtype) filled.dtype = wanted.dtype;
  if (shapes.kind == "*") {
    open = true;
    filled.kind = wanted.kind;
  }
  const auto fill = [&](int& size, int by) {
    if (size != kAnySize) return;
    open = true;
    size = by;
  };
  fill(filled.rows, wanted.rows);
  fill(filled.columns, wanted.columns);
  fill(filled.terms, wanted.terms);
  const int apart = wanted.distance(filled);
  if (apart < 0 || apart > kFarthest) return std::nullopt;
  return open ? apart + kFarthest + 1 : apart;
}

std::optional<Point> tuned_point(const Family& family, const OpenclDevice& device, const ShapeClass& shapes) {
  for (const auto* list : {&tables().own, &tables().shipped}) {
    const TunedEntry* best = nullptr;
    size_t best_words = 0;
    int best_distance = 0;
    for (const TunedEntry& entry : *list) {
      if (entry.family != family.name() || !family.contains(entry.point)) continue;
      const auto distance = entry.distance(shapes);
      if (!distance) continue;
      const auto fits = match(entry.device, device);
      if (!fits) continue;
      if (best && (*fits < best_words || (*fits == best_words && *distance >= best_distance))) continue;
      best = &entry;
      best_words = *fits;
      best_distance = *distance;
    }
    if (best) return best->point;
  }
  return std::nullopt;
}

std::vector<std::string> tuned_table_problems() {
  std::vector<std::string> all = tables().problems;
  size_t unsaid = 0, said = 0;
  const std::vector<const Family*> families = Family::all();
  for (const auto* list : {&tables().shipped, &tables().own})
    for (const TunedEntry& entry : *list) {
      const auto family = std::find_if(families.begin(), families.end(),
                                       [&](const Family* family) { return family->name() == entry.family; });
      if (family != families.end() && (*family)->contains(entry.point)) continue;
      if (said++ >= kMostProblems) {
        ++unsaid;
      } else if (family == families.end()) {
        all.push_back(concat(entry.place, ": this version has no kernel family ", entry.family));
      } else {
        all.push_back(
            concat(entry.place, ": ", entry.family, " has other tunables or values than ", entry.point.text()));
      }
    }
  if (unsaid) all.push_back(concat("tables of tuned values: ", unsaid, " more lines are of other versions"));
  return all;
}

}  // namespace pl::opencl
