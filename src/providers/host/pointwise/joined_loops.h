// Groups of nodes of a pointwise program that are one loop: what quantised tensors come from and go to, the
// derivative of gelu, and the sign that is 0 of NaN.
#pragma once

#include <vector>

#include "ops/pointwise.h"
#include "providers/host/pointwise/functions.h"

namespace pl::host {

// The last of the nodes is `node`, and of the others, `inner`, nothing else is used.
struct JoinedLoop {
  // (x - zero) * scale; clip(round(x / scale) + zero, low, high); function(x).
  enum class Kind { dequantize, quantize, function };
  Kind kind = Kind::dequantize;
  int node = -1, x = -1;
  int zero = -1, scale = -1, low = -1, high = -1;  // nodes of numbers; -1: none
  UnaryRun<float> function = nullptr;
  std::vector<int> inner;
};

// No node is in two of them.
std::vector<JoinedLoop> joined_loops(const pointwise::Code& code);

}  // namespace pl::host
