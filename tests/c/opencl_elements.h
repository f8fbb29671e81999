// What tests of OpenCL ops share whose results are a function of an index: the reference is given element by element.
#pragma once

#include <cmath>

#include "opencl_testing.h"

namespace pl::opencl_testing {

inline const double kNan = std::nan(""), kInf = INFINITY;

inline Dims with(Dims index, int dim, int64_t value) {
  index[dim] = value;
  return index;
}

inline double at(const Input& input, const Dims& index) {
  return input.values[size_t(linear(input.desc.shape, index))];
}

// Largest, where a NaN is larger than every number.
inline double larger(double a, double b) { return std::isnan(a) ? a : std::isnan(b) || b > a ? b : a; }

using Element = std::function<double(const Op& op, const Dims& index)>;

// Every candidate of the op on every OpenCL device, in every layout it offers, against `element` in double precision.
inline void run(const char* name, const char* attributes, const std::vector<Input>& inputs, const Element& element,
                double factor = 1, double absolute = 0) {
  run_all_opencl(name, attributes, inputs, [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
    Values expected;
    each(op.out().shape, [&](const Dims& index) { expected.push_back(element(op, index)); });
    expect(expected, factor, absolute)(op, y, what);
  });
}

inline Dims spatial_part(const Dims& shape) {
  Dims part;
  for (int d = 2; d < shape.size(); ++d) part.push_back(shape[d]);
  return part;
}

}  // namespace pl::opencl_testing
