#include "providers/opencl/tuned_table.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "core/files.h"
#include "core/paths.h"
#include "core/status.h"
#include "providers/opencl/embedded_kernels.h"

namespace pl::opencl {
namespace {

// Of the nearest class; farther ones say less than the default derived from the device.
constexpr int kFarthest = 4;

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
    for (const auto& file : std::filesystem::directory_iterator(base + "/tuned", error))
      if (file.path().extension() == ".tuned") files.push_back(file.path().string());
    std::sort(files.begin(), files.end());
    for (const std::string& path : files)
      for (TunedEntry& entry : parse_tuned(path, read_file(path).value_or(""), problems))
        own.push_back(std::move(entry));
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
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const auto complain = [&](const std::string& what) { problems.push_back(concat(name, ":", number, ": ", what)); };
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> parts = words(line);
    if (parts.empty()) continue;
    if (parts[0] == "device") {
      device = line.substr(line.find("device") + 6);
      if (parts.size() == 1) complain("expected words of the device's name after `device`");
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
    try {
      entry.shapes.dtype = parse_dtype(where[1]);
    } catch (const Error& error) {
      complain(error.what());
      continue;
    }
    if (device.empty()) {
      complain("there is no `device` line before it");
      continue;
    }
    entry.device = device;
    entry.family = where[0];
    entry.shapes.kind = where[2];
    entry.point = *point;
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<Point> tuned_point(const Family& family, const OpenclDevice& device, const ShapeClass& shapes) {
  for (const auto* list : {&tables().own, &tables().shipped}) {
    const TunedEntry* best = nullptr;
    size_t best_words = 0;
    int best_distance = 0;
    for (const TunedEntry& entry : *list) {
      if (entry.family != family.name() || !family.contains(entry.point)) continue;
      const int distance = shapes.distance(entry.shapes);
      if (distance < 0 || distance > kFarthest) continue;
      const auto fits = match(entry.device, device);
      if (!fits) continue;
      if (best && (*fits < best_words || (*fits == best_words && distance >= best_distance))) continue;
      best = &entry;
      best_words = *fits;
      best_distance = distance;
    }
    if (best) return best->point;
  }
  return std::nullopt;
}

std::vector<std::string> tuned_table_problems() { return tables().problems; }

}  // namespace pl::opencl
