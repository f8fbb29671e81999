#include "providers/opencl/movement/named_slices.h"

namespace pl::opencl {

void NamedSlices::add_numbers(KernelList& kernels, int input, DType index, int64_t first) const {
  KernelSource source("scatter/scatter_places.cl");
  source.define("DEPTH", int64_t(sizes.size())).define("INDEX_DTYPE", name_of(index));
  std::vector<cl_int> indexed = sizes;
  indexed.insert(indexed.end(), steps.begin(), steps.end());
  const int64_t numbers = rows() * count;
  kernels.add(source, "scatter_places")
      .input(input)
      .workspace()
      .scalar(cl_ulong(first))
      .scalar(cl_uint(count))
      .scalar(cl_uint(inner))
      .scalar(cl_uint(numbers))
      .raw(indexed.data(), indexed.size() * sizeof(cl_int))
      .global({size_t(numbers)})
      .local({64});
}

}  // namespace pl::opencl
