// Tensors as plain arrays of doubles, for reference kernels: they see neither layouts nor dtypes.
#pragma once

#include <vector>

#include "providers/host/common/host.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/reorder/copy.h"

namespace pl::host {

class PlainDoubles {
 public:
  // Row-major; nothing for an absent tensor.
  static std::vector<double> read(const TensorDesc& desc, const void* data);
  static void write(const TensorDesc& desc, void* data, const std::vector<double>& values);
};

// y[i] += factor * x[i * x_step]; y_step alike.
void add_scaled(double factor, const double* x, int64_t x_step, double* y, int64_t y_step, int64_t n);

// The input of that number in the op's list, or an absent one.
inline TensorDesc input_desc(const std::vector<TensorDesc>& inputs, size_t i) {
  return i < inputs.size() ? inputs[i] : TensorDesc();
}
inline const void* input_data(const std::vector<TensorDesc>& inputs, const KernelArguments& arguments, size_t i) {
  return i < inputs.size() && inputs[i].present ? input(arguments, int(i)) : nullptr;
}

}  // namespace pl::host
