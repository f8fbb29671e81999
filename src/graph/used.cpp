#include "graph/used.h"

namespace pl {

Used used_for(const std::vector<GraphOutput>& outputs, const std::vector<Node>& nodes, size_t values) {
  Used used{std::vector<bool>(nodes.size(), false), std::vector<bool>(values, false)};
  for (const GraphOutput& output : outputs) used.values[size_t(output.value)] = true;
  for (size_t i = nodes.size(); i-- > 0;) {
    for (ValueId id : nodes[i].outputs) used.nodes[i] = used.nodes[i] || used.values[size_t(id)];
    if (!used.nodes[i]) continue;
    for (ValueId id : nodes[i].inputs)
      if (id != kNoValue) used.values[size_t(id)] = true;
  }
  return used;
}

}  // namespace pl
