#include "providers/opencl/pool/global_pool.h"

#include <algorithm>

namespace pl::opencl {
namespace {

constexpr int64_t kLanes = 16;       // work-items that share a quad's positions
constexpr int64_t kMostOfLane = 64;  // positions of a work-item: so long is a sum in f32 whose order is plain

}  // namespace

GlobalPool::GlobalPool(const OpenclDevice& device, const TensorDesc& x, bool maximum, int64_t least_of_lane)
    : dtype(x.dtype),
      maximum(maximum),
      batch(x.shape[0]),
      channels(x.shape[1]),
      positions(x.elements() / (batch * channels)) {
  quads = 1;
  const int64_t most_quads = size_of(x.dtype) == 2 ? 16 : 8;  // 128 bytes side by side
  while (quads < most_quads && quads < channels / 4) quads *= 2;
  const int64_t groups = batch * ((channels / 4 + quads - 1) / quads);
  const int64_t wanted = 4 * int64_t(device.capabilities().compute_units) / std::max<int64_t>(1, groups);
  const int64_t least = (positions + kLanes * kMostOfLane - 1) / (kLanes * kMostOfLane);
  const int64_t most = std::max<int64_t>(1, positions / (least_of_lane * kLanes));
  parts = std::max(least, std::min(wanted, most));
  positions_of_part = (positions + parts - 1) / parts;
  parts = (positions + positions_of_part - 1) / positions_of_part;
}

void GlobalPool::add(KernelList& kernel, bool first, bool last, double scale) const {
  KernelSource source("adaptive_pool/global_pool_quad.cl");
  source.define("SRC_DTYPE", name_of(first ? dtype : DType::f32));
  source.define("DST_DTYPE", name_of(last ? dtype : DType::f32));
  source.define("POOL_MAX", maximum ? 1 : 0).define("QUADS", quads).define("LANES", kLanes);
  source.wide_indices(wide());
  Launch& launch = kernel.add(source, "global_pool_quad");
  first ? launch.input(0) : launch.workspace();
  last ? launch.output(0) : launch.workspace();
  for (int64_t number : {channels, first ? positions : parts, first ? positions_of_part : parts}) launch.index(number);
  launch.scalar(cl_float(last ? scale : 1.0));
  const auto groups = size_t((channels / 4 + quads - 1) / quads);
  launch.global({groups * size_t(quads), size_t((first ? parts : 1) * kLanes), size_t(batch)});
  launch.local({size_t(quads), size_t(kLanes), 1});
}

}  // namespace pl::opencl
