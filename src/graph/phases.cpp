#include "graph/phases.h"

namespace pl {

const char* name_of(Phase phase) {
  constexpr const char* names[] = {"forward", "backward", "update"};
  return names[int(phase)];
}

std::vector<Phase> phases_of(const Graph& graph) {
  bool updated = false;
  for (const KeptValue& kept : graph.kept()) updated = updated || (kept.update != kNoValue && !kept.appended);
  if (!updated) return {};
  std::vector<Phase> phases(graph.nodes().size(), Phase::backward);
  std::vector<bool> needed(graph.values().size(), false), stored(graph.values().size(), false);
  for (const GraphOutput& output : graph.outputs()) (output.kept < 0 ? needed : stored)[size_t(output.value)] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.node(i);
    bool forward = false, update = node.schema->updates_states();
    for (ValueId id : node.outputs) {
      forward = forward || needed[size_t(id)];
      update = update || stored[size_t(id)];
    }
    if (forward) {
      phases[i] = Phase::forward;
      for (ValueId id : node.inputs)
        if (id != kNoValue) needed[size_t(id)] = true;
    } else if (update) {
      phases[i] = Phase::update;
    }
  }
  return phases;
}

}  // namespace pl
