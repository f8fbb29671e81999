#include "providers/opencl/addressing/places.h"

#include <cstdint>

#include "core/status.h"

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

// With 2^s the first power of two that is no less than `by`, factor = floor(2^(31 + s) / by) + 1 is below 2^32, and too
// large by at most 2^s / by / 2^(31 + s) of n, less than 1 / by in all.
Divisor::Divisor(int64_t divisor) : by(cl_uint(divisor)) {
  require(divisor > 0 && divisor <= INT32_MAX, Code::internal, "no divisor: ", divisor);
  cl_uint s = 0;
  while ((int64_t(1) << s) < divisor) ++s;
  shift = 31 + s;
  factor = cl_uint((uint64_t(1) << shift) / uint64_t(divisor) + 1);
}

int piece_of(int64_t run, int64_t element_bytes, int64_t bytes) {
  int piece = 1;
  while (piece * 2 * element_bytes <= bytes && run % (piece * 2) == 0) piece *= 2;
  return piece;
}

int64_t Slabs::positions() const {
  int64_t product = 1;
  for (int64_t size : spatial) product *= size;
  return product;
}

bool slabs_of(const TensorDesc& desc, Slabs& out) {
  const int rank = desc.rank();
  if (rank < 3) return false;
  out = {};
  const int64_t batch = desc.shape[0], channels = desc.shape[1];
  for (int dim = 2; dim < rank; ++dim) out.spatial.push_back(desc.shape[dim]);
  const Layout& layout = desc.layout;
  if (desc.offset != 0 || !(desc == TensorDesc::dense(desc.dtype, desc.shape, layout))) return false;
  if (layout == Layout::plain(rank)) {
    out.run = 1;
    out.outer = batch * channels;
    return true;
  }
  if (layout == Layout::channels_last(rank)) {
    out.run = channels;
    out.outer = batch;
    return true;
  }
  const int block = layout.channel_block();
  if (block == 0) return false;
  out.run = block;
  out.outer = batch * ((channels + out.run - 1) / out.run);
  return true;
}

}  // namespace pl::opencl
