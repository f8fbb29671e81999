// Half precision in plans: values of f32 held as f16 or bf16 for math=fp16 and bf16, and values of f16 and bf16 held as
// f32 where the processor does not multiply those.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace pl {

class Context;

// The same program with every f32 value between its inputs and outputs, constants included, as `half`; sums of products
// are still f32 (docs/explanation/kernels.md).  Ops whose results or arguments cannot be so keep f32, with casts
// around them; casts keep the precision that they are given.  Inputs and outputs keep their dtypes.  Values of f16 have
// 11 bits, so each op adds a relative error of up to 2^-11; what exceeds 65504 becomes infinite, what is below 2^-24
// becomes 0 (IEEE 754 binary16).  Those of bf16 have 8 bits, and the range of f32.
// Of a program that trains the states, the updates, the loss and its gradient up to the first product stay f32.
Graph in_half_precision(const Graph& graph, Context& context, DType half);

// Whether values of f32 held so save time: on devices with that trait, and bf16 on a processor that multiplies it.
bool gains_by(const Context& context, const Device& device, DType half);

// The dtypes of `graph` that are wider in a plan for this device: on `cpu` f16 and bf16, where they occur and no
// provider multiplies them there (Provider::multiplies).
std::vector<DType> dtypes_to_widen(const Graph& graph, const Context& context, const Device& device);

// The same program with every value of these dtypes between its inputs and outputs, constants included, as f32.  Inputs
// and outputs keep their dtypes, with a cast behind or before each.  A cast to one of them within the program rounds no
// more, and nothing overflows that f32 holds: results are at least as exact as in the narrow dtype.  Ops whose
// arguments or results have to be narrow keep them, with casts around them.
Graph widened(const Graph& graph, Context& context, const std::vector<DType>& dtypes);

}  // namespace pl
