// Cost tables: what candidates cost on machines like this one, as a prior.
//
// A table holds for each op the ratio of each of its candidates to the fastest, as one machine measured them.  It is
// used on machines of its class: those of the same kind of device, vector extensions or name, and number of threads,
// whatever their clocks, memory and versions.  A ratio stands between a time that was measured here and an estimate.
//
// A table is not believed before it was checked here: of a few of its ops two candidates are measured, and the order
// and the ratio of most must be the table's (Catalog::check_tables).  What came out is kept in the cost database.
//
// Text, a line for each candidate, after two that begin it:
//   pylayout costs 2
//   class <tab> class
//   op <tab> candidate <tab> ratio
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/device.h"

namespace pl {

struct CostTable {
  std::string path, device_class;
  std::map<std::string, std::map<std::string, double>> ratios;  // by op, by candidate; 1: the fastest
  size_t damaged = 0;                                           // lines that are none
  std::string identity;                                         // a hash of its text

  // Nothing where the text is no table.
  static std::optional<CostTable> parse(std::string_view text, const std::string& path);
  std::string text() const;
};

using CostTableRef = std::shared_ptr<const CostTable>;

// `threads`: of ops on devices that run on the process's threads.
std::string cost_class(const Device& device, int threads);

// Tables for other machines cost nothing but the reading of their first lines.
class CostTables {
 public:
  // `folder`: imported ones (*.costs); the package's own are beside the library.
  explicit CostTables(std::string folder) : folder_(std::move(folder)) {}
  // The table of a class, read when it is first asked for; the imported one before the package's.  Null: there is none.
  CostTableRef of(const std::string& device_class);
  void forget() { known_.clear(); }  // files are read again

 private:
  std::string folder_;
  std::map<std::string, CostTableRef> known_;  // by class
};

}  // namespace pl
