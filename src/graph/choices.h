// What was chosen for a graph, in words that hold in any process: the part of a plan that measuring is for.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/records.h"

namespace pl {

struct State;

// What tells a state from the others of its node, in any process.
std::string key_of(const State& state);

struct PlanChoices {
  struct Cut {          // how the batch is cut from a node on (graph/chains.h)
    size_t first = 0;   // that node
    int64_t slice = 0;  // images at a time; 0: the whole batch
    int streams = 1;    // slices at the same time
    int threads = 1;    // of each
  };
  std::vector<Cut> cuts;
  std::vector<std::string> ways;  // for each node the key of its state
  std::vector<std::string>
      rests;  // the same for the images that slices leave over, for the nodes of cuts that leave some

  // As records: "part" for each cut, "choice" for each node, "rest" likewise.
  std::string records() const;
  // Takes a record that is one of these; false: it is another.  Errors: reader.refuse().
  bool take(const RecordReader& reader, const std::vector<std::string>& line);

  // Why the cuts do not fit the graph; empty if they do.
  std::string misfit(const Graph& graph) const;
};

}  // namespace pl
