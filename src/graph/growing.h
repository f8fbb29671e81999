// Growing inputs: those that a run gives back longer, as a decoder does with its past keys and values.
//
// Such an input is joined with what a run adds, concat(past, added), and the result is an output.  GrownGraph is the
// same program for a past of `capacity` places of which a run uses the first `length`, whatever that is: one program
// for many lengths.  Between the past and what is added lie then places that are not used:
//
//   past of length 3 in 6 places, 2 added:   p0 p1 p2 -- -- -- a0 a1
//
// What is computed for those places is computed in vain: a softmax along them is given a mask, so that they take part
// in no sum.  Whether that holds for all ops between is found by comparing the graph bound to several lengths: sizes
// that differ by one are such places.  Where an op mixes them, the graph is refused, and each length has a program of
// its own (graph/sizes.h).
//
// Constants that follow from the length, positions most often, become inputs: `feeds` gives them for a length.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace pl {

struct GrowingInput {
  size_t input = 0, output = 0;  // indices into Graph::inputs() and outputs()
  int dim = 0;                   // along which it grows
};

// The inputs of a graph that grow along axes of one name; none: `inputs` is empty.
struct Growing {
  std::string axis;
  std::vector<GrowingInput> inputs;

  static Growing of(const Graph& graph);
};

class GrownGraph {
 public:
  // Of a graph that was not bound yet; `sizes` of the other axes.  Throws Error(unsupported) with the reason where an
  // op mixes places, and what Graph::bound throws.
  GrownGraph(const Graph& source, const Growing& growing, std::map<std::string, int64_t> sizes, int64_t capacity);

  // The program: its inputs are the source's, then the feeds; its outputs are the source's, but that those that grow
  // give what a run adds alone.
  const Graph& graph() const { return graph_; }
  int64_t added() const { return added_; }  // places that a run adds
  int64_t capacity() const { return capacity_; }
  // Throws Error(unsupported) for a length for which the source does not hold.
  std::vector<TensorRef> feeds(int64_t length, Device& device) const;

 private:
  struct Feed {
    size_t rule = 0;  // of places_: its constant
    bool padded = false;
  };
  struct Mask {
    bool boolean = false;  // else numbers that are added: 0 and -infinity
    Dims shape;
  };
  struct Changing {
    ValueId value = kNoValue;
    int dim = 0;
    int64_t least = 0;  // what it is beside the length
  };

  void find_changes(const Graph& longer, const Graph& least);
  void rewrite(const Graph& longer, const Graph& least);
  ValueId mask(const Dims& shape, bool boolean, DType dtype);
  // The dimension of a value that has unused places, or -1.
  int padded(ValueId id) const { return id == kNoValue ? -1 : padded_[size_t(id)]; }

  Growing growing_;
  int64_t capacity_ = 0, added_ = 0;
  Graph graph_;
  std::vector<int> padded_;  // by value of the bound graph
  std::vector<Feed> feeds_;
  std::vector<Mask> masks_;
  std::vector<Changing> changing_;  // sizes that rules read
  mutable std::mutex lock_;         // guards what follows
  mutable Graph places_;            // the bound graph with its rules; sizes are put in
};

}  // namespace pl
