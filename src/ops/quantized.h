// Products of integers of 8 bits, with and without the scales of quantised tensors: which input is what.
#pragma once

#include "ops/op.h"

namespace pl {

// Input numbers of the kinds quantized_conv and quantized_matmul; -1 where the op has no such input or it was not
// given.  Inputs 0 and 1 are x and weight, or a and b.
struct QuantizedInputs {
  int x_scale, weight_scale;  // both or none: without, the result is the sum itself, s32
  int y_scale;                // of a quantised result; scaled without it: real numbers, f32
  int x_zero, weight_zero, y_zero;
  int bias;
  int addend, addend_scale, addend_zero;  // the operand of post-ops, its scale given with it

  explicit QuantizedInputs(const Op& op);
  bool scaled() const { return x_scale >= 0; }
  bool rounds() const { return y_scale >= 0; }
};

// quantize_linear and dequantize_linear as a statement of the op `pointwise`, with scale and zero point as x1 and x2.
std::string quantizing_expression(const Op& op);

// Where the attribute `dtype` is given, the zero point of the result has it.
void restrict_zero_point(Schema& schema, const char* input);

}  // namespace pl
