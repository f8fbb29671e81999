// Half precision: a graph whose values of f32 are held as f16, for math=fp16.
#pragma once

#include "graph/graph.h"

namespace pl {

class Context;

// The same program with every f32 value between its inputs and outputs, constants included, as f16; sums of products
// are still f32 (docs/explanation/kernels.md).  Ops whose results or arguments cannot be f16 keep f32, with casts
// around them; casts keep the precision that they are given.  Inputs and outputs keep their dtypes.  Values have 11
// bits, so each op adds a relative error of up to 2^-11; what exceeds 65504 becomes infinite, what is below 2^-24
// becomes 0 (IEEE 754 binary16).
Graph in_half_precision(const Graph& graph, Context& context);

}  // namespace pl
