// Products of integers of 8 bits (ops/quantized.h) as kernels take them: weights s8, with a zero point only where a
// kernel serves one.
#pragma once

#include <string>
#include <vector>

#include "graph/passes/rewriter.h"

namespace pl {
class Context;
class Device;
}  // namespace pl

namespace pl::passes {

// An op of the kinds quantized_conv and quantized_matmul, its inputs by their places in qlinear_conv and
// qlinear_matmul; without scales it is one of sums, s32.
struct IntegerProduct {
  bool conv = false;
  Attributes attributes;  // the window and groups, post-ops and the dtype of the result
  int64_t groups = 1;
  DType dtype = DType::s32;  // of the result
  ValueId x = kNoValue, weight = kNoValue;
  ValueId x_scale = kNoValue, weight_scale = kNoValue, y_scale = kNoValue;
  ValueId x_zero = kNoValue, weight_zero = kNoValue, y_zero = kNoValue;
  ValueId bias = kNoValue;
  ValueId addend = kNoValue, addend_scale = kNoValue, addend_zero = kNoValue;

  bool scaled() const { return x_scale != kNoValue; }
  bool rounds() const { return y_scale != kNoValue; }
  std::string schema() const;
  std::vector<ValueId> inputs() const;
};

IntegerProduct integer_product(Rewriter& rewriter, size_t index);   // of a node that is one
// With weights of s8; centred: as if they had no zero points.
Op op_of(const Rewriter& rewriter, const IntegerProduct& product, bool centred = false);

// Makes weights s8: of u8, 128 is taken off weights and zero points, and constants take their zero points off where
// they stay in range.  What it inserts stands before node `before`.
void centre_weights(Rewriter& rewriter, Context& context, IntegerProduct& product, size_t before);
// Whether the zero point of the weights is to be applied to the sums of x: no kernel takes it, or that costs less; and
// what the product costs, in ms.
struct ZeroPointCost {
  bool by_sums = false;
  double ms = 0;
};
ZeroPointCost zero_point_cost(Rewriter& rewriter, Context& context, Device& device, const IntegerProduct& product);
// The product without this zero point, its result real; and that of ones for the sums of x, times its
// scale.
IntegerProduct without_weight_zero(const IntegerProduct& product);
IntegerProduct sums_of_x(Rewriter& rewriter, Context& context, const IntegerProduct& product);
// Makes node `index` the product.  by_sums:
// sum (x - x_zero) (w - w_zero) = sum (x - x_zero) w - w_zero sum (x - x_zero).
void rewrite_as(Rewriter& rewriter, Context& context, size_t index, const IntegerProduct& product, bool by_sums,
                const std::string& name);

}  // namespace pl::passes
