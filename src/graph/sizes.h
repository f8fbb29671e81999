// Sizes: the programs of a plan for further sizes of its named axes.
//
// A run with tensors of sizes that the plan has no program for binds the graph to them, which infers all shapes again,
// simplifies it, and makes a program without measuring anything: by the choices of the nearest sizes of the same shape
// class where there are some, else by costs.  All programs share one store of packed weights and one block of memory
// that they run in, so what another program adds is its kernels and what it knows of its ops.  So much of that is kept
// as `program_memory` says; programs not used for longest go first.
//
// A graph may be made for some sizes only (Graph::require_sizes); further graphs of the same inputs and outputs may be
// added for others.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/plan.h"

namespace pl {

class Plan::Sizes {
 public:
  // Of a plan that has its context, graph, options and store of constants, and that is not compiled yet.
  explicit Sizes(Plan& plan);

  // Whether these inputs have other shapes than the plan's own graph.
  bool are_others(const std::vector<TensorRef>& inputs) const;
  // The plan for the sizes of these inputs, made where there is none.  Throws Error(shape) naming input and axis where
  // they do not fit the graph's, and what Graph::bound and compiling throw.
  std::shared_ptr<Plan> at(const std::vector<TensorRef>& inputs);
  void add(Graph source);
  const Graph& source() const { return sources_.front(); }  // the plan's own, as it was given
  void describe(Json& json);

 private:
  using Shapes = std::vector<int64_t>;
  struct Kept {
    Shapes shapes;
    std::shared_ptr<Plan> plan;
    size_t bytes = 0;
  };

  Shapes shapes_of(const std::vector<TensorRef>& inputs) const;
  std::map<std::string, int64_t> sizes_of(const std::vector<TensorRef>& inputs) const;
  std::shared_ptr<Plan> find(const Shapes& shapes);
  std::shared_ptr<Plan> nearest(const Shapes& shapes);  // null: none is of the same class
  std::shared_ptr<Plan> make(Graph graph, const Shapes& shapes);
  void keep(const Shapes& shapes, const std::shared_ptr<Plan>& plan);
  size_t limit() const;

  Plan& plan_;
  std::vector<Graph> sources_;
  std::shared_ptr<PackedConstants> constants_;
  std::mutex making_;        // one program is made at a time
  mutable std::mutex lock_;  // guards what follows
  std::list<Kept> kept_;     // the latest used first
  size_t bytes_ = 0;
  int64_t made_ = 0;
};

}  // namespace pl
