#include "dispatch/cost_tables.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "core/files.h"
#include "core/status.h"

namespace pl {
namespace {

constexpr std::string_view kFirstLine = "pylayout costs 2";
constexpr std::string_view kClass = "class", kAbout = "about", kWay = "way";
constexpr double kMostRatio = 1e6, kMostMs = 1e9;
// Slower candidates are never chosen: plain loops.
constexpr double kMostWritten = 64;
// Times more or fewer threads: what a core has of caches and bandwidth is then another machine's.
constexpr double kMostThreads = 4;

// The line that begins the text, which is taken from it.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string_view take_field(std::string_view& line, char separator = '\t') {
  const size_t end = line.find(separator);
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return field;
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::optional<CostClass> read_class(std::string_view line) {
  CostClass found;
  if (take_field(line) != kClass) return std::nullopt;
  found.kind = std::string(take_field(line));
  if (found.kind.empty() || !read_number(line, found.threads) || found.threads < 0) return std::nullopt;
  return found;
}

// The folders of the package's tables: beside the library; where it is installed without Python, in one of its own.
std::vector<std::string> own_folders() {
  Dl_info self{};
  if (!dladdr(reinterpret_cast<void*>(&cost_class), &self) || !self.dli_fname) return {};
  const std::filesystem::path place = std::filesystem::path(self.dli_fname).parent_path();
  return {(place / "costs").string(), (place / "pylayout" / "costs").string()};
}

std::optional<CostClass> class_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string first, second;
  if (!std::getline(file, first) || first != kFirstLine || !std::getline(file, second)) return std::nullopt;
  return read_class(second);
}

std::string number(double value, int digits) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr);
}

}  // namespace

// ---- classes ----

std::string CostClass::str() const { return threads ? kind + "|threads=" + std::to_string(threads) : kind; }

double CostClass::distance(const CostClass& other) const {
  constexpr double never = std::numeric_limits<double>::infinity();
  if (kind != other.kind || !threads != !other.threads) return never;
  if (!threads) return 0;
  const double apart = std::fabs(std::log2(double(threads) / other.threads));
  return apart <= std::log2(kMostThreads) ? apart : never;
}

CostClass cost_class(const Device& device, int threads) {
  const std::map<std::string, std::string> properties = device.properties();
  const auto value = [&](const char* key) {
    const auto found = properties.find(key);
    return found == properties.end() ? std::string() : found->second;
  };
  // Of NVIDIA's GPUs those of one compute capability have the same cores: an H100 and an H200, which differ in memory.
  const std::string isa = value("isa"), capability = value("compute_capability");
  CostClass found;
  found.kind = device.name().substr(0, device.name().find(':')) + "|" +
               (!isa.empty()          ? isa
                : !capability.empty() ? "NVIDIA, compute capability " + capability
                                      : value("name"));
  if (device.traits().threads) found.threads = threads;
  return found;
}

// ---- one table ----

std::shared_ptr<const CostTable> CostTable::parse(std::string text, std::string path) {
  const std::shared_ptr<CostTable> table(new CostTable(std::move(text), std::move(path)));
  return table->read() ? table : nullptr;
}

bool CostTable::read() {
  identity_ = hex(checksum(text_));
  std::string_view text = text_;
  if (take_line(text) != kFirstLine) return false;
  const auto stated = read_class(take_line(text));
  if (!stated) return false;
  class_ = *stated;
  while (!text.empty()) {
    std::string_view rest = take_line(text);
    if (rest.empty()) continue;
    const std::string_view name = take_field(rest);
    if (name == kAbout) {
      const std::string_view what = take_field(rest);
      about_.emplace_back(what, rest);
    } else if (name == kWay) {
      ways_.push_back(rest);
    } else if (Costs costs; !name.empty() && read_op(rest, &costs)) {
      places_[name] = rest;
      candidates_ += costs.ratios.size();
    } else {
      ++damaged_;
    }
  }
  return true;
}

bool CostTable::read_op(std::string_view line, Costs* costs) const {
  if (!read_number(take_field(line), costs->ms) || !(costs->ms > 0) || costs->ms > kMostMs || line.empty())
    return false;
  while (!line.empty()) {
    std::string_view ratio = take_field(line);
    const std::string_view way = take_field(ratio, ':');
    size_t place = 0;
    double times = 0;
    if (!read_number(way, place) || place >= ways_.size() || !read_number(ratio, times) || !(times >= 1) ||
        times > kMostRatio)
      return false;
    costs->ratios.emplace_back(ways_[place], times);
  }
  return true;
}

CostTable::Costs CostTable::find(std::string_view op) const {
  Costs costs;
  const auto place = places_.find(op);
  if (place != places_.end()) read_op(place->second, &costs);
  return costs;
}

double CostTable::Costs::ratio_of(std::string_view candidate) const {
  for (const auto& [key, ratio] : ratios)
    if (key == candidate) return ratio;
  return 0;
}

std::string CostTable::write(const CostClass& device_class, const About& about,
                             const std::map<std::string, std::map<std::string, double>>& times) {
  std::string head = concat(kFirstLine, '\n', kClass, '\t', device_class.kind, '\t', device_class.threads, '\n');
  for (const auto& [what, text] : about) head += concat(kAbout, '\t', what, '\t', text, '\n');
  std::map<std::string, size_t> numbers;
  std::string ways, ops;
  for (const auto& [op, candidates] : times) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [candidate, ms] : candidates) least = std::min(least, ms);
    if (!(least > 0)) continue;
    ops += op + '\t' + number(least, 4);
    for (const auto& [candidate, ms] : candidates) {
      if (ms > kMostWritten * least) continue;
      const auto [known, added] = numbers.try_emplace(candidate, numbers.size());
      if (added) ways += concat(kWay, '\t', candidate, '\n');
      ops += concat('\t', known->second, ':') + number(ms / least, 3);
    }
    ops += '\n';
  }
  return head + ways + ops;
}

// ---- all of them ----

std::vector<CostTables::File> CostTables::files() const {
  std::vector<File> found;
  std::vector<std::string> folders = own_folders();
  folders.insert(folders.begin(), folder_);
  for (size_t i = 0; i < folders.size(); ++i) {
    std::error_code problem;
    std::vector<std::string> paths;
    if (!folders[i].empty())
      for (const auto& file : std::filesystem::directory_iterator(folders[i], problem))
        if (file.path().extension() == ".costs") paths.push_back(file.path().string());
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths)
      if (const auto stated = class_of_file(path)) found.push_back({path, *stated, i == 0});
  }
  return found;
}

const std::vector<CostTableRef>& CostTables::of(const CostClass& device_class) {
  const auto [place, fresh] = known_.try_emplace(device_class.str());
  std::vector<CostTableRef>& tables = place->second;
  if (!fresh) return tables;
  std::vector<std::pair<double, File>> near;
  for (File& file : files()) {
    const double away = file.device_class.distance(device_class);
    if (std::isfinite(away)) near.emplace_back(away, std::move(file));
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [away, file] : near) {
    auto text = read_file(file.path);
    if (CostTableRef table = text ? CostTable::parse(std::move(*text), file.path) : nullptr)
      tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace pl
