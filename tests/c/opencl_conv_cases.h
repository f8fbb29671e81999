// For tests of conv on OpenCL: the op in double precision, and the check of all candidates of one case.
#pragma once

#include "opencl_candidates.h"
#include "ops/spatial.h"

namespace pl::testing {

// A spatial shape as (d, h, w), with sizes of 1 before those that are there.
inline Array widened(Array array) {
  Dims shape{array.shape[0], array.shape[1]};
  for (int i = array.shape.size(); i < 5; ++i) shape.push_back(1);
  for (int i = 2; i < array.shape.size(); ++i) shape.push_back(array.shape[i]);
  array.shape = shape;
  return array;
}

struct Geometry {
  Window axis[3];
  explicit Geometry(const Op& op) {
    const int spatial = spatial_rank(op);
    for (int i = 0; i < 3; ++i) axis[i].in = axis[i].out = 1;
    for (int i = 0; i < spatial; ++i) axis[3 - spatial + i] = window_of(op, i);
  }
};

// Adds to y[n, o, q] for every pair of an input position p and a kernel position k that meet in q of a convolution
// (from p = q * stride - begin + k * dilation) or of its transpose (q = p * stride - begin + k * dilation).
inline Array reference(const Op& op, const std::vector<Array>& inputs, bool transposed) {
  const Array x = widened(inputs[0]), w = widened(inputs[1]);
  Array y(op.out().shape);
  y = widened(y);
  const Geometry g(op);
  const int64_t groups = op.attributes[attr::groups], oc = y.shape[1] / groups, ic = x.shape[1] / groups;
  for_each_index(y.shape, [&](const Dims& q, size_t linear) {
    double sum = 0;
    const int64_t group = q[1] / oc;
    for_each_index(Dims{w.shape[2], w.shape[3], w.shape[4]}, [&](const Dims& k, size_t) {
      int64_t p[3];
      for (int a = 0; a < 3; ++a) {
        const Window& v = g.axis[a];
        if (transposed) {
          const int64_t scaled = q[2 + a] + v.begin - k[a] * v.dilation;
          if (scaled < 0 || scaled % v.stride) return;
          p[a] = scaled / v.stride;
        } else {
          p[a] = q[2 + a] * v.stride - v.begin + k[a] * v.dilation;
        }
        if (p[a] < 0 || p[a] >= x.shape[2 + a]) return;
      }
      for (int64_t i = 0; i < ic; ++i) {
        const double weight =
            transposed ? w.at({group * ic + i, q[1] % oc, k[0], k[1], k[2]}) : w.at({q[1], i, k[0], k[1], k[2]});
        sum += x.at({q[0], group * ic + i, p[0], p[1], p[2]}) * weight;
      }
    });
    if (op.has(2)) sum += inputs[2].values[size_t(q[1])];
    y.values[linear] = finished(op, sum, inputs, linear);
  });
  y.shape = op.out().shape;
  return y;
}

struct Case {
  const char* name;
  Dims x, weight;
  const char* attributes;
  bool bias = false, residual = false, gate = false;
};

inline void check(Candidates& candidates, const Case& c, DType dtype, bool special = false) {
  const bool transposed = std::string(c.name).rfind("conv_transpose", 0) == 0;
  static unsigned seed = 1;
  std::vector<Array> inputs{random_array(c.x, dtype, seed++), random_array(c.weight, dtype, seed++), Array(), Array()};
  if (special) {  // NaN and infinity reach the outputs that see them, and no other one
    inputs[0].values[3] = NAN;
    inputs[0].values[inputs[0].values.size() - 2] = INFINITY;
  }
  if (!transposed) inputs.push_back(Array());
  const Attributes attributes = Attributes::parse(c.attributes);
  Attributes bare = attributes;
  bare.erase(attr::post_ops);
  std::vector<TensorDesc> descs;
  for (const Array& input : inputs)
    descs.push_back(input.given() ? TensorDesc::dense(dtype, input.shape) : TensorDesc());
  const Dims output = make_op(*find_schema(c.name), bare, descs).out().shape;
  if (c.bias) inputs[2] = random_array(Dims{output[1]}, dtype, seed++);
  if (c.residual) inputs[3] = random_array(output, dtype, seed++);
  if (c.gate) inputs[4] = random_array(output, dtype, seed++);
  candidates.check(c.name, attributes, dtype, inputs, [&](const Op& op) { return reference(op, inputs, transposed); });
}

}  // namespace pl::testing
