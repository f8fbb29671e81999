// What both bodies of batch norm in training and of its gradients share, by rows (batch_norm_rows.cpp) and by planes
// (batch_norm_planes.cpp): runs of x as floats, and a number for each channel.
#pragma once

#include <vector>

#include "ops/normalization.h"
#include "providers/host/common/host.h"

namespace pl::host {

struct BatchNormBody {
  DType dtype;
  int64_t channels;
  double eps;
  LoadRun<float> load;
  StoreRun<float> store;
  std::vector<DType> inputs, outputs;  // dtypes

  BatchNormBody(const Op& op)
      : dtype(op.in(0).dtype),
        channels(op.in(0).shape[1]),
        eps(op.attributes[attr::eps]),
        load(float_loader(dtype)),
        store(float_storer(dtype)) {
    for (const TensorDesc& desc : op.inputs) inputs.push_back(desc.dtype);
    for (const TensorDesc& desc : op.outputs) outputs.push_back(desc.dtype);
  }

  // `count` elements from `at` on as floats: where they lie, or in `space`.
  const float* read(const void* data, int64_t at, int64_t count, std::vector<float>& space) const {
    if (dtype == DType::f32) return static_cast<const float*>(data) + at;
    space.resize(size_t(count));
    load(data, at, 1, count, space.data());
    return space.data();
  }
  // Calls f(y) with where to write them.
  template <class F>
  void write(void* data, int64_t at, int64_t count, std::vector<float>& space, F&& f) const {
    if (dtype == DType::f32) return f(static_cast<float*>(data) + at);
    space.resize(size_t(count));
    f(space.data());
    store(space.data(), count, data, at, 1);
  }
  // An input and an output with an element for each channel.
  std::vector<float> parameter(const KernelArguments& arguments, int i) const {
    std::vector<float> values(static_cast<size_t>(channels));
    float_loader(inputs[size_t(i)])(input(arguments, i), 0, 1, channels, values.data());
    return values;
  }
  void write_parameter(const std::vector<float>& values, const KernelArguments& arguments, int i) const {
    float_storer(outputs[size_t(i)])(values.data(), channels, output(arguments, i), 0, 1);
  }
};

}  // namespace pl::host
