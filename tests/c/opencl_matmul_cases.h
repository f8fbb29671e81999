// For tests of matmul and linear on OpenCL: products in double precision, and the check of all candidates of one case.
#pragma once

#include "opencl_candidates.h"
#include "providers/opencl/matmul/matmul_common.h"

namespace pl::testing {

// The shape of at least two dimensions, a vector as one row, or as one column.
inline Dims matrix_shape(const Dims& shape, bool column) {
  if (shape.size() > 1) return shape;
  return column ? Dims{shape[0], 1} : Dims{1, shape[0]};
}

// Element (batch, row, column) of a stack whose leading dimensions are broadcast to `batch`.
inline double element(const Array& array, const Dims& shape, const Dims& batch, int64_t row, int64_t column) {
  const int leading = shape.size() - 2;
  size_t place = 0;
  for (int d = 0; d < leading; ++d) {
    const int64_t i = batch[batch.size() - leading + d];
    place = place * size_t(shape[d]) + size_t(shape[d] == 1 ? 0 : i);
  }
  place = (place * size_t(shape[leading]) + size_t(row)) * size_t(shape[leading + 1]) + size_t(column);
  return array.values[place];
}

inline Array product(const Op& op, const std::vector<Array>& inputs, bool transpose_a, bool transpose_b) {
  const Array &a = inputs[0], &b = inputs[1], &bias = inputs[2];
  const Dims sa = matrix_shape(a.shape, false), sb = matrix_shape(b.shape, true);
  const int64_t depth = sa[sa.size() - (transpose_a ? 2 : 1)];
  Array y(op.out().shape);
  for_each_index(y.shape, [&](const Dims& index, size_t linear) {
    int last = index.size() - 1;
    const int64_t column = b.shape.size() > 1 ? index[last--] : 0;
    const int64_t row = a.shape.size() > 1 ? index[last--] : 0;
    const Dims batch(index.data(), size_t(last + 1));
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += (transpose_a ? element(a, sa, batch, k, row) : element(a, sa, batch, row, k)) *
             (transpose_b ? element(b, sb, batch, column, k) : element(b, sb, batch, k, column));
    if (bias.given()) sum += bias.values[size_t(column)];
    y.values[linear] = finished(op, sum, inputs, linear);
  });
  return y;
}

// Candidates meant for GPUs are right everywhere, so they are added.
inline void check_matmul(Candidates& candidates, const Dims& a, const Dims& b, const char* text, int64_t bias,
                         DType dtype, const Dims& residual = Dims(), bool gate = false) {
  static unsigned seed = 100;
  std::vector<Array> inputs{random_array(a, dtype, seed++), random_array(b, dtype, seed++), Array(), Array(), Array()};
  if (bias) inputs[2] = random_array(Dims{bias}, dtype, seed++);
  const Attributes attributes = Attributes::parse(text);
  if (residual.size()) inputs[3] = random_array(residual, dtype, seed++);
  if (gate) inputs[4] = random_array(residual, dtype, seed++);
  candidates.more = {opencl::list_matmul_local, opencl::list_matmul_mma};
  candidates.check("matmul", attributes, dtype, inputs, [&](const Op& op) {
    return product(op, inputs, op.attributes[attr::transpose_a], op.attributes[attr::transpose_b]);
  });
}

inline void check_linear(Candidates& candidates, const Dims& x, int64_t out, const char* text, bool bias, bool residual,
                         DType dtype, bool gate = false) {
  static unsigned seed = 200;
  std::vector<Array> inputs{random_array(x, dtype, seed++), random_array(Dims{out, x[x.size() - 1]}, dtype, seed++),
                            Array(), Array(), Array()};
  Dims shape = x;
  shape[x.size() - 1] = out;
  if (bias) inputs[2] = random_array(Dims{out}, dtype, seed++);
  if (residual) inputs[3] = random_array(shape, dtype, seed++);
  if (gate) inputs[4] = random_array(shape, dtype, seed++);
  candidates.more = {opencl::list_linear_local, opencl::list_linear_mma};
  candidates.check("linear", Attributes::parse(text), dtype, inputs,
                   [&](const Op& op) { return product(op, inputs, false, true); });
}

}  // namespace pl::testing
