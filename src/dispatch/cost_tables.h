// Cost tables: what candidates cost on machines like this one, as a prior.
//
// A table holds for each op what its fastest candidate took on one machine, and the ratio of each candidate to that.
// It is used on machines of its class, or of one near to it: those of the same kind of device, with the same vector
// extensions or name, and a like number of threads, whatever their clocks, memory and versions.  What it says stands
// between a time that was measured here and an estimate.
//
// A table is not believed before it was checked here: of a few of its ops two candidates are measured, and the order
// and the ratio of most must be the table's (Catalog::check_tables).  What came out is kept in the cost database.
//
// Text, in lines whose fields are separated by tabs.  Those of ways come before the ops that refer to them by number:
//   pylayout costs 2
//   class, kind, threads            threads: 0 where ops do not run on the process's
//   about, what, text               the machine, the versions, the day: for people
//   way, Candidate::key()           number 0, 1, ...
//   op, ms, number:ratio, ...       op: its key in the cost database; ratio: 1 for the fastest
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/device.h"

namespace pl {

// Which machines may use each other's tables.
struct CostClass {
  std::string kind;  // of device, with its vector extensions or name
  int threads = 0;

  std::string str() const;
  // 0: the same; infinite: a table of the other class is of no use here.
  double distance(const CostClass& other) const;
};

// `threads`: of ops on devices that run on the process's threads.
CostClass cost_class(const Device& device, int threads);

class CostTable {
 public:
  using About = std::vector<std::pair<std::string, std::string>>;

  // Null where the text is no table.
  static std::shared_ptr<const CostTable> parse(std::string text, std::string path);
  // The text of a table: `times` in ms, by op and candidate.  Candidates so slow that nobody takes them are left out.
  static std::string write(const CostClass& device_class, const About& about,
                           const std::map<std::string, std::map<std::string, double>>& times);
  CostTable(const CostTable&) = delete;
  CostTable& operator=(const CostTable&) = delete;

  const std::string& path() const { return path_; }
  const CostClass& device_class() const { return class_; }
  const About& about() const { return about_; }
  size_t ops() const { return places_.size(); }
  size_t candidates() const { return candidates_; }
  size_t damaged() const { return damaged_; }                // lines that are none of these
  const std::string& identity() const { return identity_; }  // a hash of its text

  struct Costs {
    double ms = 0;                                            // of the fastest, on that machine
    std::vector<std::pair<std::string_view, double>> ratios;  // by candidate

    double ratio_of(std::string_view candidate) const;  // 0: the table does not name it
  };
  // Nothing in it where the table does not name the op.
  Costs find(std::string_view op) const;

 private:
  CostTable(std::string text, std::string path) : text_(std::move(text)), path_(std::move(path)) {}
  bool read();
  bool read_op(std::string_view line, Costs* costs) const;

  std::string text_;  // what follows refers to it
  std::string path_, identity_;
  CostClass class_;
  About about_;
  std::vector<std::string_view> ways_;
  std::unordered_map<std::string_view, std::string_view> places_;  // the rest of its line, by op
  size_t candidates_ = 0, damaged_ = 0;
};

using CostTableRef = std::shared_ptr<const CostTable>;

// Tables of other classes cost nothing but the reading of their first lines.
class CostTables {
 public:
  // `folder`: imported ones (*.costs); the package's own are beside the library.
  explicit CostTables(std::string folder) : folder_(std::move(folder)) {}
  // The tables that may serve a class, the nearest first, imported ones before the package's; read when they are first
  // asked for.
  const std::vector<CostTableRef>& of(const CostClass& device_class);
  // The files of all, in the order in which they are looked at, with the class that each states.
  struct File {
    std::string path;
    CostClass device_class;
    bool imported = false;
  };
  std::vector<File> files() const;
  void forget() { known_.clear(); }  // files are read again

 private:
  std::string folder_;
  std::map<std::string, std::vector<CostTableRef>> known_;  // by CostClass::str()
};

}  // namespace pl
