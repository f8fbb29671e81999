// Gradients: appends to a graph the ops that derive one of its values by others, walking from the loss backwards.
//
// What each op contributes is data of its schema (Schema::gradient, ops/gradient.h).  Where a value is used several
// times its gradients are added in the order of the uses, the last first, so that sums are the same from run to run. It
// is done before passes rewrite the graph: those then see forward and backward as one.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace pl {

// The gradients of `loss`, which holds one element, by each value of `by`: zeros where it does not depend on one.
// Throws Error(unsupported) naming op and node where an op between them has no gradient, Error(invalid_argument) for
// values that are no floating numbers.
// `cpu` is where constants lie.
std::vector<ValueId> gradients(Graph& graph, ValueId loss, const std::vector<ValueId>& by, Device& cpu);

}  // namespace pl
