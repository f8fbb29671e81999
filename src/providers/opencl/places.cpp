#include "providers/opencl/places.h"

namespace pl::opencl {

void over_places(Launch& launch, const Addressing& tensor) {
  // 64: neighbours of a group write whole cache lines, and small tensors still spread over the device.
  launch.index(tensor.places()).global({size_t(tensor.places())}).local({64});
}

void add_zero_padding(KernelList& kernels, const Addressing& dst, int output) {
  int64_t elements = 1;
  for (int dim = 0; dim < dst.rank; ++dim) elements *= dst.dims[size_t(dim)];
  if (elements == dst.places()) return;
  KernelSource source("common/zero_padding.cl");
  source.tensor("DST", dst);
  over_places(kernels.add(source, "zero_padding").output(output, "DST"), dst);
}

std::string offset_text(const std::string& tensor, int rank, const std::function<std::string(int dim)>& index) {
  std::string text = tensor + "_OFFSET(";
  for (int dim = 0; dim < rank; ++dim) text += (dim ? ", " : "") + index(dim);
  return text + ")";
}

}  // namespace pl::opencl
