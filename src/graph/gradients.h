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

// The same gradients in a graph that was made from another one, of which `part` is: value v there is places[v] here.
// Where they are here is put into places.
void derive_again(const DerivedPart& part, Graph& graph, std::vector<ValueId>& places);

// A factor of the loss that keeps gradients within what f16 holds: the state `loss_scale`, and `loss_scale/good_steps`,
// how many runs since it changed had finite gradients.  A run whose gradients are not all finite halves it; after
// `interval` others in a row it doubles.  It stays between 2^-24 and 2^24.
struct LossScale {
  double initial = 65536;
  int64_t interval = 2000;
};

struct ScaledGradients {
  std::vector<ValueId> values;  // of the scaled loss
  ValueId factor = kNoValue;    // f32, one element: 1 / scale, or 0 where a gradient is infinite or NaN
};

// The gradients of the loss times a scale, and what steps of optimizers take as grad_scale.  States that are updated so
// far stay as they were in a run whose gradients are not finite.
ScaledGradients scaled_gradients(Graph& graph, ValueId loss, const std::vector<ValueId>& by, const LossScale& scale,
                                 Device& cpu);

}  // namespace pl
