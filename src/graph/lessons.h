// Lessons: what steps took within programs, by which layouts are assigned again.
//
// Times of single ops do not add up to a program's: what an op finds in the caches depends on its neighbours.  So times
// taken within programs take the place of those taken alone, or of estimates, wherever there are any.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/assign.h"
#include "graph/program.h"
#include "graph/step_times.h"

namespace pl {

class Lessons {
 public:
  // The times of a program's steps; the assignment's states are those of the nodes that apply() is given.  Steps
  // without samples, which a run did not get to, teach nothing.
  void add(const Program& program, const Assignment& assignment, const StepTimes& times);
  // Sets what states and conversions cost.  Ways that ran nowhere are scaled by what the others of their node turned
  // out to cost.
  void apply(std::vector<NodeStates>& nodes, ConversionCosts& costs) const;
  // Whether it ran within a program.
  bool knows(const Way* way) const { return anywhere_.count(way) != 0; }

 private:
  struct Seen {
    double sum = 0;
    int count = 0;
  };
  struct Moved {
    TensorDesc from, to;
    Device* device = nullptr;
    double ms = 0;
  };
  std::map<std::pair<size_t, int>, double> at_node_;  // least, by node and state
  std::map<const Way*, Seen> anywhere_;
  std::map<const Way*, Moved> moved_;  // by reorder, the least
};

// The number that a state of `from` has among those of `nodes`, for each node; -1 where it is not among them.
Assignment translated(const Assignment& assignment, const std::vector<NodeStates>& from,
                      const std::vector<NodeStates>& nodes);

// Whether two states of a node read and give the same, constants aside, which are packed once.
bool same_layouts(const Graph& graph, const Node& node, const State& a, const State& b);

}  // namespace pl
