// An inference program as one that trains: weights become parameters, batch norms take the statistics of the batch.
#pragma once

#include "graph/graph.h"

namespace pl {

class Context;

// Constants of floating dtypes that are weights become parameters, named as they are: inputs with Role::constant, and
// the operands of matmul and of sums, products and quotients that hold more than one element.  A batch_norm whose
// running statistics are constants becomes batch_norm_training, and those become states that follow the batch's by
// `momentum`.
//
// Attention, activations and norms that are spelled out become one op each, products with parameters linear ops, and
// views of rows move behind them (training_passes()), where no axis is named: passes know one size of each axis only.
Graph trainable(const Graph& graph, double momentum, Context& context);

}  // namespace pl
