#include "dispatch/cost_database.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string_view>

#include "core/dims.h"
#include "core/files.h"
#include "core/paths.h"

namespace pl {
namespace {

uint64_t checksum_of(std::string_view text) {
  uint64_t seed = 0x70796c61796f7574ull;  // fixed: the value is kept on disk
  for (char c : text) seed = hash_mix(seed, static_cast<unsigned char>(c));
  return seed;
}

std::string cost_key(const std::string& environment, const std::string& op, const std::string& candidate) {
  return environment + '\t' + op + '\t' + candidate;
}

// Splits a line into key and time; false if anything about it is wrong.
bool parse_line(std::string_view line, std::string& key, double& ms) {
  const size_t first = line.find('\t');
  const size_t last = line.rfind('\t');
  if (first != 16 || last <= first) return false;
  char* end = nullptr;
  const std::string sum(line.substr(0, 16));
  const uint64_t expected = std::strtoull(sum.c_str(), &end, 16);
  if (*end || checksum_of(line.substr(17)) != expected) return false;
  key = std::string(line.substr(17, last - 17));
  const std::string number(line.substr(last + 1));
  ms = std::strtod(number.c_str(), &end);
  return *end == 0 && std::isfinite(ms) && ms >= 0;
}

}  // namespace

CostDatabase::CostDatabase(const std::string& directory) {
  if (directory.empty() || !make_directories(directory)) {
    writable_ = false;
    return;
  }
  path_ = directory + "/costs-2.log";
  load();
}

void CostDatabase::load() {
  std::ifstream file(path_, std::ios::binary);
  for (std::string line, key; std::getline(file, line);) {
    double ms;
    if (line.empty()) continue;
    if (parse_line(line, key, ms)) {
      costs_[key] = ms;
    } else {
      ++damaged_;
    }
  }
}

std::optional<double> CostDatabase::find(const std::string& environment, const std::string& op,
                                         const std::string& candidate) const {
  std::lock_guard<std::mutex> guard(lock_);
  auto it = costs_.find(cost_key(environment, op, candidate));
  if (it == costs_.end()) return std::nullopt;
  return it->second;
}

std::vector<CostDatabase::Record> CostDatabase::records(const std::string& environment,
                                                        const std::string& prefix) const {
  std::vector<Record> found;
  const std::string begin = environment + '\t' + prefix;
  std::lock_guard<std::mutex> guard(lock_);
  for (const auto& [key, ms] : costs_) {
    if (key.compare(0, begin.size(), begin) != 0) continue;
    const size_t op = environment.size() + 1, end = key.find('\t', op);
    found.push_back({key.substr(op, end - op), key.substr(end + 1), ms});
  }
  return found;
}

void CostDatabase::record(const std::string& environment, const std::string& op, const std::string& candidate,
                          double ms) {
  const std::string key = cost_key(environment, op, candidate);
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", ms);
  const std::string body = key + '\t' + number;
  std::lock_guard<std::mutex> guard(lock_);
  const auto [known, is_new] = costs_.try_emplace(key, ms);
  if (!is_new && known->second == ms) return;  // the file has it
  known->second = ms;
  ++generation_;
  if (!path_.empty()) writable_ = append(hex(checksum_of(body)) + '\t' + body + '\n');
}

bool CostDatabase::append(const std::string& line) {
  // Opened anew each time: another process may have cleared the file, and a fork must not share the offset.
  const int file = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  bool done = false;
  if (::flock(file, LOCK_EX) == 0) {
    struct stat info {};
    std::string text = line;
    char last = '\n';
    if (::fstat(file, &info) == 0 && info.st_size > 0 && ::pread(file, &last, 1, info.st_size - 1) == 1 && last != '\n')
      text = '\n' + line;  // a writer was killed in the middle of a line: leave its piece a line of its own
    done = ::write(file, text.data(), text.size()) == ssize_t(text.size());
  }
  ::close(file);
  return done;
}

void CostDatabase::clear() {
  std::lock_guard<std::mutex> guard(lock_);
  costs_.clear();
  damaged_ = 0;
  ++generation_;
  if (!path_.empty()) ::unlink(path_.c_str());
}

CostDatabase::Status CostDatabase::status() const {
  std::lock_guard<std::mutex> guard(lock_);
  std::set<std::string_view> environments;
  for (const auto& entry : costs_) environments.insert(std::string_view(entry.first).substr(0, entry.first.find('\t')));
  return {path_, costs_.size(), damaged_, environments.size(), writable_};
}

size_t CostDatabase::count(const std::set<std::string>& environments) const {
  std::lock_guard<std::mutex> guard(lock_);
  size_t found = 0;
  for (const auto& entry : costs_) found += environments.count(entry.first.substr(0, entry.first.find('\t')));
  return found;
}

uint64_t CostDatabase::generation() const {
  std::lock_guard<std::mutex> guard(lock_);
  return generation_;
}

}  // namespace pl
