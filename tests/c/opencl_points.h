// For tests of tuning spaces: of each point that the tuner may choose one candidate, on every device here.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "check.h"
#include "opencl_candidates.h"
#include "providers/opencl/tuning/tuned_table.h"

namespace pl::testing {

// Leaves the first candidate of each point and device.  Cases share the points: each takes those that fall to one of
// its layouts, the last one all that are left.
class EachPointOnce {
 public:
  EachPointOnce(Candidates& candidates, std::set<std::string> families) : families_(std::move(families)) {
    candidates.whole_space = true;
    candidates.begin = [this] { ++device_; };
    candidates.filter = [this](const Candidate& candidate) { return take(candidate); };
    candidates.unoptimised_on_cpus();  // optimised: test_opencl_conv and test_opencl_matmul, with fewer points
  }
  // Before each case.
  void next(bool last) {
    device_ = -1;
    last_ = last;
    ++turn_;
  }
  size_t points(const std::string& family) { return points_[family].size(); }

 private:
  bool take(const Candidate& candidate) {
    const TuningPoint& point = candidate.tuning;
    if (!families_.count(point.family)) return false;
    const std::hash<std::string> hash;
    if (!last_ && (hash(point.values) + hash(candidate.outputs[0].layout.str()) + size_t(turn_)) % 3) return false;
    if (!seen_.insert(concat(device_, " ", point.family, " ", point.values)).second) return false;
    points_[point.family].insert(point.values);
    // It is in the space that the family documents, and a table can name it.
    std::vector<std::string> problems;
    const auto parsed = opencl::parse_tuned(
        "test", concat("device x\n", point.family, " ", point.shapes, ": ", point.values), problems);
    for (const std::string& problem : problems) std::fprintf(stderr, "%s\n", problem.c_str());
    REQUIRE(parsed.size() == 1);
    bool inside = false;
    for (const opencl::Family* family : opencl::Family::all())
      inside |= family->name() == point.family && family->contains(parsed[0].point);
    CHECK(inside);
    return true;
  }

  std::set<std::string> families_, seen_;
  std::map<std::string, std::set<std::string>> points_;
  int device_ = -1, turn_ = 0;
  bool last_ = false;
};

}  // namespace pl::testing
