// CostDatabase: measured times on disk, shared by processes.
//
// One text file, costs-2.log, that only grows; a record is a line
//   checksum <tab> environment <tab> op <tab> candidate <tab> milliseconds <newline>
// written by a single write() under a lock on the file.  A line whose checksum (64 bits over the rest) does not
// match is skipped and counted, so a kill in the middle of a write or a damaged disk costs that record only; a
// later record of the same key replaces an earlier one.  `environment` is a hash of device, driver, provider
// version, thread count and of whether idle threads sleep, so records of other circumstances are never used, only
// counted.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace pl {

class CostDatabase {
 public:
  // An empty directory name keeps costs in memory only.
  explicit CostDatabase(const std::string& directory);

  std::optional<double> find(const std::string& environment, const std::string& op, const std::string& candidate) const;
  // Remembers, and appends to the file.  A file that cannot be written costs nothing but the memory of it.
  void record(const std::string& environment, const std::string& op, const std::string& candidate, double ms);
  void clear();  // in memory and on disk

  struct Record {
    std::string op, candidate;
    double ms = 0;
  };
  // Those of one environment whose op begins with `prefix`, in no order.
  std::vector<Record> records(const std::string& environment, const std::string& prefix) const;

  struct Status {
    std::string path;
    size_t records = 0;  // keys known
    size_t damaged = 0;  // lines skipped when the file was read
    size_t environments = 0;
    bool writable = true;
  };
  Status status() const;
  // Keys known of these environments.
  size_t count(const std::set<std::string>& environments) const;
  // Increased by every record, so that choices made before can be told from those after.
  uint64_t generation() const;

 private:
  void load();
  bool append(const std::string& line);

  mutable std::mutex lock_;
  std::string path_;
  std::unordered_map<std::string, double> costs_;  // environment \t op \t candidate
  size_t damaged_ = 0;
  bool writable_ = true;
  uint64_t generation_ = 0;
};

}  // namespace pl
