#include "providers/opencl/matmul/matmul_common.h"

#include <utility>

namespace pl::opencl {
void swap_dims(Addressing& a, int first, int second) {
  std::swap(a.dims[size_t(first)], a.dims[size_t(second)]);
  std::swap(a.strides[size_t(first)], a.strides[size_t(second)]);
  const auto swapped = [&](int dim) { return dim == first ? second : dim == second ? first : dim; };
  for (Addressing::Inner& inner : a.inner) inner.dim = swapped(inner.dim);
  for (int& dim : a.order) dim = swapped(dim);
}

Addressing as_matrices(const TensorDesc& desc, bool transposed, bool vector_is_column) {
  Addressing a(desc);
  if (a.rank == 0) a.insert(0, 1);
  if (a.rank == 1) a.insert(vector_is_column ? 1 : 0, 1);
  a.insert(0, kStackDims + 2 - a.rank);
  if (transposed) swap_dims(a, kStackDims, kStackDims + 1);
  return a;
}

TensorDesc as_rows(const TensorDesc& desc) {
  if (!desc.layout.is_plain() || desc.rank() < 2) return desc;
  const int64_t columns = desc.shape[desc.rank() - 1];
  return TensorDesc::dense(desc.dtype, Dims{desc.elements() / columns, columns});
}

int64_t MatmulTensors::stack() const {
  int64_t product = 1;
  for (int i = 0; i < kStackDims; ++i) product *= dst.padded(i);
  return product;
}

ShapeClass shape_class(const MatmulTensors& t) {
  return {t.a.dtype, t.stack() > 1 ? "stack" : "product", t.rows(), t.columns(), t.depth()};
}

std::unique_ptr<Kernel> prepare_matmul_direct(OpenclDevice& device, const Op& op, const MatmulTensors& t) {
  KernelSource source("matmul/matmul_direct.cl");
  source.tensor("A", t.a).tensor("B", t.b).tensor("DST", t.dst);
  t.epilogue.define(source, op);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "matmul_direct").input(0, "A").input(1, "B").output(0, "DST");
  t.epilogue.pass(launch);
  launch.global({size_t(t.dst.padded(kStackDims + 1)), size_t(t.dst.padded(kStackDims)), size_t(t.stack())})
      .local({64, 1, 1});
  return kernel;
}

}  // namespace pl::opencl
