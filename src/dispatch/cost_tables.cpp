#include "dispatch/cost_tables.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/files.h"
#include "core/status.h"

namespace pl {
namespace {

constexpr std::string_view kFirstLine = "pylayout costs 2";
constexpr std::string_view kClass = "class\t";
constexpr double kMostRatio = 1e6;

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// The folder of the package's tables.
std::string own_folder() {
  Dl_info self{};
  if (!dladdr(reinterpret_cast<void*>(&cost_class), &self) || !self.dli_fname) return {};
  return (std::filesystem::path(self.dli_fname).parent_path() / "costs").string();
}

std::string class_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string first, second;
  if (!std::getline(file, first) || first != kFirstLine || !std::getline(file, second)) return {};
  return second.compare(0, kClass.size(), kClass) == 0 ? second.substr(kClass.size()) : std::string();
}

}  // namespace

std::optional<CostTable> CostTable::parse(std::string_view text, const std::string& path) {
  CostTable table;
  table.path = path;
  table.identity = hex(checksum(text));
  if (next_line(text) != kFirstLine) return std::nullopt;
  const std::string_view second = next_line(text);
  if (second.substr(0, kClass.size()) != kClass) return std::nullopt;
  table.device_class = std::string(second.substr(kClass.size()));
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (line.empty()) continue;
    const size_t first = line.find('\t'), last = line.rfind('\t');
    char* end = nullptr;
    const std::string number = last == std::string_view::npos ? "" : std::string(line.substr(last + 1));
    const double ratio = std::strtod(number.c_str(), &end);
    if (first == std::string_view::npos || first == 0 || last <= first + 1 || *end || !(ratio >= 1) ||
        ratio > kMostRatio) {
      ++table.damaged;
      continue;
    }
    table.ratios[std::string(line.substr(0, first))][std::string(line.substr(first + 1, last - first - 1))] = ratio;
  }
  return table;
}

std::string CostTable::text() const {
  std::string text = concat(kFirstLine, '\n', kClass, device_class, '\n');
  char number[32];
  for (const auto& [op, candidates] : ratios)
    for (const auto& [candidate, ratio] : candidates) {
      std::snprintf(number, sizeof number, "%.4g", ratio);
      text += op + '\t' + candidate + '\t' + number + '\n';
    }
  return text;
}

std::string cost_class(const Device& device, int threads) {
  const std::map<std::string, std::string> properties = device.properties();
  const auto value = [&](const char* key) {
    const auto found = properties.find(key);
    return found == properties.end() ? std::string() : found->second;
  };
  const std::string isa = value("isa");
  std::string text = device.name().substr(0, device.name().find(':')) + "|" + (isa.empty() ? value("name") : isa);
  if (device.traits().threads) text += "|threads=" + std::to_string(threads);
  return text;
}

CostTableRef CostTables::of(const std::string& device_class) {
  const auto known = known_.find(device_class);
  if (known != known_.end()) return known->second;
  CostTableRef& table = known_[device_class];
  for (const std::string& folder : {folder_, own_folder()}) {
    std::error_code problem;
    std::vector<std::string> files;
    if (!folder.empty())
      for (const auto& file : std::filesystem::directory_iterator(folder, problem))
        if (file.path().extension() == ".costs") files.push_back(file.path().string());
    std::sort(files.begin(), files.end());
    for (const std::string& path : files) {
      if (table || class_of_file(path) != device_class) continue;
      const auto text = read_file(path);
      if (auto read = text ? CostTable::parse(*text, path) : std::nullopt)
        table = std::make_shared<const CostTable>(std::move(*read));
    }
  }
  return table;
}

}  // namespace pl
