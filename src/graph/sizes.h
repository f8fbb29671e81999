// Sizes: the programs of a plan for further sizes of its named axes.
//
// A run with tensors of sizes that the plan has no program for binds the graph to them, which infers all shapes again,
// simplifies it, and makes a program without measuring anything: by the choices of the nearest sizes of the same shape
// class where there are some, else by costs.  All programs share one store of packed weights and one block of memory
// that they run in, so what another program adds is its kernels and what it knows of its ops.  So much of that is kept
// as `program_memory` says; programs not used for longest go first.
//
// On a device that compiles kernels such a program takes those that are compiled already, so that its first run waits
// for no compiler. After some runs a thread makes it anew with the kernels that suit its sizes, and it takes the
// other's place.
//
// What grows from run to run, a decoder's past, has one program for many lengths (graph/growing.h).  Its memory has
// room for more than it holds: a run that is given what the last one gave writes behind it, and gives a view of the
// same memory.  Nothing that was given before changes.  What a run is given otherwise is copied into such memory first.
//
// Values that a plan keeps between its runs are the plan's own at all sizes: a program for further ones has none.
//
// A graph may be made for some sizes only (Graph::require_sizes); further graphs of the same inputs and outputs may be
// added for others.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "core/background.h"
#include "graph/growing.h"
#include "graph/plan.h"

namespace pl {

class Plan::Sizes {
 public:
  using Sources = std::list<std::shared_ptr<Graph>>;

  // Of a plan that has its context, graph, options and store of constants, and that is not compiled yet.
  explicit Sizes(Plan& plan);
  ~Sizes();  // waits for what is being made

  // Whether these inputs have other shapes than the plan's own graph.
  bool are_others(const std::vector<TensorRef>& inputs) const;
  // The plan for the sizes of these inputs, made where there is none.  Throws Error(shape) naming input and axis where
  // they do not fit the graph's, and what Graph::bound and compiling throw.
  std::shared_ptr<Plan> at(const std::vector<TensorRef>& inputs);
  // The same for sizes of the axes, in the order in which inputs name them first; null where they are the plan's own.
  std::shared_ptr<Plan> at(const std::vector<int64_t>& sizes);
  // The results of a run whose past is in such memory, or of sizes that are others than the plan's own; null where
  // nothing grows in the plan, or this run has no past.
  std::optional<std::vector<TensorRef>> run_growing(const std::vector<TensorRef>& inputs);
  void add(Graph source);
  void settle_outputs();  // has those of all graphs in the layouts that the plan's has them in
  const Graph& source() const { return *sources_.front(); }  // the plan's own, as it was given
  Sources sources();                                         // all graphs that were given, the plan's own first
  void describe(Json& json);

 private:
  using Shapes = std::vector<int64_t>;
  struct Kept {
    Shapes shapes;
    std::shared_ptr<Plan> plan;
    size_t bytes = 0;
    std::shared_ptr<GrownGraph> grown;  // of a program for many lengths
    bool sparing = false;               // made of kernels that were compiled already
    int runs = 0;                       // of a sparing one
  };
  struct Grower {  // what grows in which of the graphs
    Growing growing;
    std::shared_ptr<const Graph> source;
  };
  // Memory with room for `places`, of which the first `used` hold something that was given to somebody.
  struct Room {
    std::weak_ptr<Buffer> buffer;
    int64_t places = 0, used = 0;
  };

  void settle_outputs(Graph& source) const;
  Shapes shapes_of(const std::vector<TensorRef>& inputs) const;
  std::map<std::string, int64_t> sizes_of(const std::vector<TensorRef>& inputs) const;
  std::map<std::string, int64_t> sizes_in(const Shapes& shapes) const;  // of shapes that fit
  std::shared_ptr<Plan> known_at(const Shapes& shapes);                 // null: there is none
  Kept find(const Shapes& shapes);
  // Null: none is of the same class; any other will do on devices that compile, if `of_any_class`.
  std::shared_ptr<Plan> nearest(const Shapes& shapes, bool of_any_class);
  Graph bound(const Sources& sources, const std::map<std::string, int64_t>& sizes) const;
  std::shared_ptr<Plan> compiled(Graph graph, const Plan* guide) const;
  // Counts a run of a sparing program, and has it made anew when it is due.
  // `graph`: what it is made of.
  void count_run(const Shapes& shapes, std::function<Graph()> graph);
  void specialise(const Shapes& shapes, const std::function<Graph()>& graph);
  size_t bytes_of(const Plan& plan) const;  // beside the plan's own program
  std::shared_ptr<Plan> make(Graph graph, const Shapes& shapes, std::shared_ptr<GrownGraph> grown = nullptr);
  void keep(const Shapes& shapes, const std::shared_ptr<Plan>& plan, std::shared_ptr<GrownGraph> grown);
  static Shapes grown_shapes(const Growing& growing, const std::vector<TensorRef>& inputs, int64_t places);
  // What grows, if that is known to be something or not known yet; else null.
  std::shared_ptr<const Grower> grower();
  template <class Make>
  auto unless_refused(const Grower& grower, const std::map<std::string, int64_t>& sizes, const Make& make)
      -> std::optional<decltype(make())>;
  // Finds out whether the graph is one for many lengths, if no run did.
  void check_growing();
  // Places that a run of these adds; nothing where the graph is none for many lengths.
  std::optional<int64_t> added_by(const Grower& grower, const std::vector<TensorRef>& inputs);
  // The program for memory with such a room; null where the graph is none for many lengths.
  Kept grown_at(const Grower& grower, const std::vector<TensorRef>& inputs, int64_t room);
  // How many places the memory of a past has that a run gave; 0 where it is no such memory.
  int64_t room_of(const TensorRef& past, int dim);
  // Memory for so many places, of which the first are those of `past`, and the others 0.
  TensorRef roomy(const TensorRef& past, int dim, int64_t places);
  void remember_room(const TensorRef& room, int dim, int64_t used);
  // Whether a run that is given the first `length` places of a room may write behind them; then nobody else may.
  bool claim(const TensorRef& past, int64_t length, int64_t added);
  size_t limit() const;
  bool beyond_memory_limit() const;  // with lock_ held

  // The i-th input that a caller gives.
  const GraphInput& given(const Graph& graph, size_t i) const { return graph.inputs()[given_[i]]; }

  Plan& plan_;
  Sources sources_;                // that of `grower_` among them
  size_t graphs_ = 1;              // of them: with lock_, as sources_ is with making_
  std::vector<size_t> given_;      // indices into Graph::inputs(), without the values that the plan keeps
  Shapes own_;                     // of the plan's own graph
  std::vector<int32_t> axis_at_;   // by place in shapes: an index into axes_, -1: the size is fixed
  std::vector<std::string> axes_;  // in the order in which inputs name them first
  std::shared_ptr<PackedConstants> constants_;
  std::mutex making_;        // one program is made at a time
  mutable std::mutex lock_;  // guards what follows
  std::list<Kept> kept_;     // the latest used first
  size_t bytes_ = 0;
  int64_t made_ = 0, specialised_ = 0;
  bool specialising_ = false;             // guarded by lock_
  std::shared_ptr<const Grower> grower_;  // never null; guarded by lock_
  std::string why_not_growing_;           // empty: it does, as far as that is known; guarded by lock_
  bool grows_ = false;                    // that is known; guarded by lock_
  std::map<const Buffer*, Room> rooms_;   // guarded by lock_
  // Places that a run adds, by grown_shapes(growing, inputs, 0); guarded by lock_.
  std::map<Shapes, int64_t> added_;
  Background background_;  // makes programs anew; the last: its work uses all of the others
};

}  // namespace pl
