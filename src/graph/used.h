// Of a graph what its outputs follow from.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace pl {

struct Used {
  std::vector<bool> nodes, values;
};

// Of so many values; each node comes after the makers of its inputs.
Used used_for(const std::vector<GraphOutput>& outputs, const std::vector<Node>& nodes, size_t values);
inline Used used_in(const Graph& graph) { return used_for(graph.outputs(), graph.nodes(), graph.values().size()); }

}  // namespace pl
