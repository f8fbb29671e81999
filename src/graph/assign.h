// Layout assignment: one state for each node of a graph, so that ops and the conversions between them cost least in
// all.
//
// The problem is a partitioned boolean quadratic one (graph/pbqp.h).  A node's cost is its state's; an edge's is the
// cheapest conversion from what one end gives to what the other wants.  A value with several consumers is a hub, a node
// of its own, whose state is the set of descriptions in which it is materialised, so that a conversion that two
// consumers share is counted once.  Constants cost nothing: they are packed when the plan is made.
//
// Costs of ops are known up to a relative `noise`.  Of many states whose costs lie within it the least is as often
// lucky as fast, and conversions would be bought for nothing.  So each conversion has to gain, beside what it costs,
// `noise` times what the dearest of the ops at its ends takes at best.  An assignment's ms is without these margins.
#pragma once

#include <vector>

#include "dispatch/conversion.h"
#include "graph/pbqp.h"
#include "graph/states.h"

namespace pl {

// What conversions cost, measured only where that was asked for.
class ConversionCosts {
 public:
  ConversionCosts(Conversions& conversions, int threads) : conversions_(conversions), threads_(threads) {}
  // Infinity where there is no way.
  double ms(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target);
  // Of a copy to another place.
  double copy_ms(const TensorDesc& desc, Device& device);
  // From here on this conversion costs that.
  void set(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target, double ms);
  // Measures this conversion; true if that had not been done.
  bool measure(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target);

 private:
  struct Known {
    double ms = 0;
    bool measured = false;
  };
  uint64_t key(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target) const;

  Conversions& conversions_;
  int threads_;
  std::unordered_map<uint64_t, Known> known_;
};

struct Assignment {
  std::vector<int> states;  // one of NodeStates::states for each node
  double ms = 0;            // of ops and conversions, as the costs say
  double lower_bound = 0;
  bool exact = false;
};

// One place where a value is used in another description than it is made in.
struct Use {
  ValueId value = kNoValue;
  int node = -1;   // the consumer; -1: an output of the graph
  int input = -1;  // which input of it, or which output of the graph
  TensorDesc given, wanted;
  Device* source = nullptr;
  Device* target = nullptr;
};

Assignment assign(const Graph& graph, const std::vector<NodeStates>& nodes, Device& home, ConversionCosts& costs,
                  const PbqpLimits& limits, double noise = 0);
// The uses that need a conversion under an assignment.
std::vector<Use> conversions_of(const Graph& graph, const std::vector<NodeStates>& nodes, Device& home,
                                const Assignment& assignment);

}  // namespace pl
