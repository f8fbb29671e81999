// Growing inputs: those that a run gives back longer, as a decoder does with its past keys and values.
//
// Such an input is joined with what a run adds, concat(past, added), and the result is an output.  GrownGraph is the
// same program for memory with room for `room` places, of which the first `length` hold the past, whatever that is: one
// program for many lengths.  A run writes what it adds behind them, in place (tensor_scatter), and works on the whole:
//
//   past of length 3 in 8 places, 2 added:   p0 p1 p2 a0 a1 -- -- --
//
// What is computed for the places behind is computed in vain: a softmax along them is given a mask, so that they take
// part in no sum.  Whether that holds for all ops between is found by comparing the graph bound to several lengths:
// sizes that differ by one are such places.  Where an op mixes them, the graph is refused, and each length has a
// program of its own (graph/sizes.h).
//
// Other inputs may have to be longer where the past is, as a mask of past and present: their axes follow.  A run's are
// copied into memory with as much room, with zeros behind.
//
// That memory is a kept value of the program's (KeptValue::appended), which each run is given.  Constants that follow
// from the length, positions most often, become inputs: `feeds` gives them for a length.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace pl {

struct Place {  // a dimension of an input
  size_t input = 0;
  int dim = 0;
};

struct GrowingInput {
  size_t input = 0, output = 0;  // indices into Graph::inputs() and outputs()
  int dim = 0;                   // along which it grows
};

// The inputs of a graph that grow, all by as many places; none: `inputs` is empty.
struct Growing {
  std::vector<std::string> axes;  // along which they do, which have one size; exporters often name each anew
  std::vector<GrowingInput> inputs;
  std::string follower;          // another axis, that has to be longer where the past is; empty: none has
  std::vector<Place> followers;  // where they have it

  static Growing of(const Graph& graph);
  bool grows(const std::string& axis) const;
  // These sizes with a past of so many places, and what follows it.  Throws Error(unsupported) where a size that follows
  // would be negative.
  std::map<std::string, int64_t> at(std::map<std::string, int64_t> sizes, int64_t length) const;
  // Places that a run adds, of a graph that was not bound yet; throws as GrownGraph does.
  int64_t added(const Graph& source, const std::map<std::string, int64_t>& sizes) const;

 private:
  void find_follower(const Graph& graph);
};

class GrownGraph {
 public:
  // Of a graph that was not bound yet; `sizes` of the other axes; `room`: more than a run adds.  Throws
  // Error(unsupported) with the reason where an op mixes places, and what Graph::bound throws.
  GrownGraph(const Graph& source, const Growing& growing, const std::map<std::string, int64_t>& sizes, int64_t room);

  // The program: its inputs are the source's, then the feeds, its outputs the source's.  Those that grow are kept
  // values, in the order of Growing::inputs.
  const Graph& graph() const { return graph_; }
  int64_t capacity() const { return capacity_; }  // places of the longest past
  // For a past of so many places, on this device; none of it waits for what is queued there, but once in many lengths
  // that follow one another.  Throws Error(unsupported) for a length for which the source does not hold.
  std::vector<TensorRef> feeds(int64_t length, Device& device) const;

 private:
  struct Numbers {  // of a feed, in the order of memory
    TensorDesc desc;
    std::vector<char> bytes;
  };
  struct Feed {
    size_t rule = 0;  // of places_: its constant
    bool padded = false;
  };
  struct Changing {
    ValueId value = kNoValue;
    int dim = 0;
    int64_t least = 0;  // what it is beside the length
  };

  // A node that becomes another, so that places that are not used count for nothing, or that reads places which follow
  // from the length.
  struct Change {
    size_t node = 0;
    std::vector<ValueId> inputs;
    const Schema* schema = nullptr;  // null: the same with the same attributes
    Attributes attributes;
  };
  // An input that rewriting adds.  Of a mask: booleans, or numbers that are added, 0 and -infinity.
  struct Added {
    TensorDesc desc;
    ValueId value = kNoValue;
    std::optional<int64_t> first;  // as many numbers as it has from there on, beyond the length; none: a mask
  };
  class Places;  // follows them through the graph (graph/grown_places.cpp)

  void find_changes(const Graph& longer, const Graph& least);
  std::vector<ValueId> find_feeds(const Graph& longer, const Graph& least);
  std::vector<Change> changed_nodes(const Graph& longer, const Graph& least, const std::vector<ValueId>& fed);
  void check_outputs() const;
  void rewrite(const Graph& longer, const Graph& least);
  void append_in_place();
  ValueId mask(int rank, int dim, int64_t size, DType dtype);
  ValueId places_from(int64_t first, int64_t count);  // the length and `first` more, and the places behind
  ValueId place_of(int64_t first);                    // that alone, of rank 0
  ValueId added(const TensorDesc& desc, std::optional<int64_t> first);  // an input like that, once
  std::vector<Numbers> numbers(int64_t length) const;
  // The dimension of a value that has unused places, or -1.
  int padded(ValueId id) const { return id == kNoValue ? -1 : padded_[size_t(id)]; }

  Growing growing_;
  int64_t capacity_ = 0;  // places of the longest past
  Graph graph_;
  std::vector<int> padded_;  // by value of the bound graph
  std::vector<Feed> feeds_;
  std::vector<Added> added_;
  std::vector<Changing> changing_;  // sizes that rules read
  mutable std::mutex lock_;         // guards what follows
  mutable Graph places_;            // the bound graph with its rules; sizes are put in
  // The feeds of some lengths, from `first` on, on a device that queues work.
  struct Table {
    BufferRef buffer;
    int64_t first = 0, count = 0;
    size_t each = 0;                                   // bytes for a length
    std::vector<std::pair<TensorDesc, size_t>> feeds;  // and where each lies in these
  };
  mutable Table table_;
};

}  // namespace pl
