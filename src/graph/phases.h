// Phases: which nodes of a program that trains are its forward pass, its backward pass and its update.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace pl {

enum class Phase { forward, backward, update };

const char* name_of(Phase phase);

// By node; nothing for a graph in which no kept value is updated.  Forward is what the caller's results need, update
// what makes the new values of states (steps of optimizers and ops with such a value as their result), backward the
// rest.
std::vector<Phase> phases_of(const Graph& graph);

}  // namespace pl
