// Recomputing: values of the forward pass that are made again in the backward pass instead of being kept for it.
//
// A training program's memory is highest about where its backward pass begins: what each layer made is there still.  An
// activation, a batch norm or a pool of what is kept anyway costs little time and frees as much memory as the result of
// a convolution.  So values are chosen one by one, where the peak is: those that free most bytes for the time that it
// takes to make them again, until the peak is low enough or nothing lowers it.  What is made again may need values that
// are not kept either; these are kept, or made again too, whichever is the better bargain.  With convolutions among
// them that ends at whole blocks of which only the first input is kept (Chen et al., "Training deep nets with sublinear
// memory cost", 2016); the greedy choice by bytes and time is that of Kirisame et al., "Dynamic tensor
// rematerialization", 2021, here made once, before the first run.
//
// A copy of a node is the same op on the same values, by the same implementation, so that results have the same bits:
// random numbers too, which depend on seed and position alone.
#pragma once

#include <set>
#include <vector>

#include "graph/assign.h"
#include "graph/graph.h"
#include "graph/states.h"

namespace pl {

struct MadeAgain {
  size_t node = 0;  // of the graph
  size_t from = 0;  // nodes from this one on use what is made again, before the first of them that needs it
};

struct RecomputedGraph {
  Graph graph;
  std::vector<size_t> origin;    // by node: the one of the old graph that it is, or that it makes again
  std::vector<size_t> position;  // by node: that one, or the one of the old graph before which it is made again
};

// Nodes that nothing needs any more before the copy is made are left out.
RecomputedGraph made_again(const Graph& graph, const std::vector<MadeAgain>& list);

// Chooses what is made again in a graph whose layouts are assigned.
class Recomputer {
 public:
  // All three must outlive this.
  Recomputer(const Graph& graph, const std::vector<NodeStates>& nodes, const Assignment& assignment, Device& home);

  // The most bytes that live at once between inputs and outputs, as far as graph and states tell.
  size_t peak() const { return peak_; }
  // Makes values again until the peak is at most so high.  False: before that nothing lowered it any more.
  bool lower_to(size_t bytes);

  std::vector<MadeAgain> list() const;
  double ms() const;  // that making them again takes
  const RecomputedGraph& result() const { return result_; }
  // The states of the result's nodes, those of the old ones, and the choice of the same.
  std::vector<NodeStates> nodes() const;
  Assignment assignment() const;

 private:
  class Lives;
  // What is made again for one buffer at the peak.
  struct Bargain {
    std::vector<size_t> nodes;  // of the old graph
    size_t from = 0;
    double bytes = 0, ms = 0;
  };

  const State& state_of(size_t node) const { return nodes_[node].states[size_t(assignment_.states[node])]; }
  bool may_be_made_again(size_t node) const;
  // Deep: inputs that are not kept are made again as well.  False: it frees nothing.
  bool price(const Lives& lives, int buffer, int peak, bool deep, Bargain& bargain) const;
  void apply();

  const Graph& graph_;
  const std::vector<NodeStates>& nodes_;
  const Assignment& assignment_;
  Device& home_;
  std::vector<bool> forward_;              // by node of the old graph
  std::vector<size_t> from_;               // the same: MadeAgain::from; SIZE_MAX: it is kept
  std::set<std::vector<size_t>> refused_;  // nodes made again together that raised the peak
  RecomputedGraph result_;
  size_t peak_ = 0;
};

}  // namespace pl
