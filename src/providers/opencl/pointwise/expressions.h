// Ops that are expressions, on the generator of pointwise_kernel.h: what such an op says of itself.
#pragma once

#include <string>
#include <vector>

#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {

struct Expressions {
  std::string elements = "y0 = x0";
  std::string reductions;
  std::vector<double> scalars;
  std::string epilogue = "identity";
  double alpha = 0, beta = 0;
  std::vector<int64_t> reduced;  // dimensions of the broadcast shape
  // What is computed over: what the inputs broadcast to, or the shape of input 0, with other inputs of one dimension
  // along dimension 1 (per_channel), or of one element, whatever their rank (scalars_beside).
  enum class Over { broadcast, per_channel, scalars_beside } over = Over::broadcast;
};

// Adds a candidate for each layout that suits, or a refusal.  x0, x1, ... are the inputs that are given.
void list_expressions(const Op& op, OpenclDevice& device, CandidateList& out, const Expressions& what);

}  // namespace pl::opencl
