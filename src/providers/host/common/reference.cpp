#include "providers/host/common/reference.h"

#include "providers/host/common/independent.h"

namespace pl::host {

std::vector<double> PlainDoubles::read(const TensorDesc& desc, const void* data) {
  if (!desc.present) return {};
  std::vector<double> values(size_t(desc.elements()));
  const TensorDesc plain = TensorDesc::dense(desc.dtype, desc.shape);
  const LoadRun<double> load = double_loader(desc.dtype);
  for (const Nest& nest : make_nests(desc.shape, {{plain, {}}, {desc, {}}}))
    walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
      if (nest.run().stride[0] == 1) return load(data, offsets[1], nest.run().stride[1], n, values.data() + offsets[0]);
      for (int64_t i = 0; i < n; ++i)
        load(data, offsets[1] + i * nest.run().stride[1], 1, 1, values.data() + offsets[0] + i * nest.run().stride[0]);
    });
  return values;
}

void PlainDoubles::write(const TensorDesc& desc, void* data, const std::vector<double>& values) {
  const TensorDesc plain = TensorDesc::dense(desc.dtype, desc.shape);
  const StoreRun<double> store = double_storer(desc.dtype);
  for (const Nest& nest : make_nests(desc.shape, {{plain, {}}, {desc, {}}}))
    walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
      if (nest.run().stride[0] == 1)
        return store(values.data() + offsets[0], n, data, offsets[1], nest.run().stride[1]);
      for (int64_t i = 0; i < n; ++i)
        store(values.data() + offsets[0] + i * nest.run().stride[0], 1, data, offsets[1] + i * nest.run().stride[1], 1);
    });
  PaddingZeroer(desc).run(data);
}

PL_VECTORISED void add_scaled(double factor, const double* x, int64_t x_step, double* y, int64_t y_step, int64_t n) {
  if (x_step == 1 && y_step == 1) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * y_step] += factor * x[i * x_step];
  }
}

}  // namespace pl::host
