#include "providers/opencl/addressing/channel_parts.h"

#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"

namespace pl::opencl {
namespace {

constexpr int64_t kMostItems = 256, kMostAcross = 32, kMostJoining = 64;  // work-items
constexpr int64_t kGroupOfWhole = 512, kAccess = 32;  // work-items, whose sums then fit 16 KiB; bytes
constexpr int64_t kGroupsOfUnit = 8;  // enough to keep loads on their way while others join what they know
constexpr int64_t kLeastRows = 4;     // of a work-item, so that joining is the smaller part
// Of parts that are to be few.  A work-group of the last launch reads what all parts of its channels gave, so that it
// takes fewer channels; and a launch less is worth fewer work-groups.
constexpr int64_t kLeastRowsOfFew = 8, kAccessOfFew = 64;  // bytes
constexpr int64_t kEnoughGroups = 4;                       // for each compute unit
constexpr int64_t kParallelLost = 4;                       // how many times as many parts are given up for that
constexpr int64_t kMostRows = 2048;                        // of a work-item, whose sums' errors grow with them

int64_t power_from(int64_t value) {
  int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}

int vector_for_size(int64_t size) { return size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1; }

std::optional<ChannelParts> parts_of(const OpenclDevice& device, const TensorDesc& desc, int most_vector, bool few,
                                     bool of_images = false) {
  const int rank = desc.rank();
  if (!has_quads(desc.dtype) || rank < 2 || desc.elements() == 0 || desc.offset != 0) return std::nullopt;
  if (!(desc == TensorDesc::dense(desc.dtype, desc.shape, desc.layout)) || !narrow(Addressing(desc)))
    return std::nullopt;
  ChannelParts out;
  out.channels = desc.shape[1];
  const int64_t positions = desc.elements() / desc.shape[0] / desc.shape[1];
  const Layout& layout = desc.layout;
  if (layout == Layout::channels_last(rank) || (layout.is_plain() && positions == 1)) {
    out.wide = true;
    out.rows = desc.shape[0] * positions;
    out.width = desc.shape[1];
  } else if (layout.is_plain()) {
    out.images = desc.shape[0];
    out.blocks = desc.shape[1];
    out.vector = std::min(vector_for_size(positions), most_vector);
    out.rows = positions / out.vector;
  } else if (const int block = layout.channel_block()) {
    out.wide = true;
    out.images = desc.shape[0];
    out.width = block;
    out.blocks = divided_up(desc.shape[1], out.width);
    out.rows = positions;
  } else {
    return std::nullopt;
  }
  if (of_images) {
    if (out.rows > positions) out.images = desc.shape[0], out.rows = positions;  // channels last
    out.blocks *= out.images;
    out.images = 1;
    out.channels = out.blocks * out.width;
  }
  const Capabilities& can = device.capabilities();
  const int64_t all_rows = out.images * out.rows;
  if (out.wide) out.vector = std::min(vector_for_size(out.width), most_vector);
  const int64_t across = out.wide ? out.width / out.vector : 1;
  if (!can.cpu) {  // a work-item of a processor is a loop of its own
    int64_t group = 1;
    while (group * 2 <= std::min<int64_t>(kMostItems, int64_t(can.max_work_group))) group *= 2;
    out.lanes_x = int(std::min({power_from(across), kMostAcross, group}));
    const auto enough = [&] {
      const int64_t most = divided_up(across, out.lanes_x) * out.blocks * kMostFewParts;
      return most >= kEnoughGroups * can.compute_units;
    };
    const int64_t access = few ? kAccessOfFew / (int64_t(out.vector) * size_of(desc.dtype)) : kMostAcross;
    while (out.lanes_x > access && !enough()) out.lanes_x /= 2;
    out.lanes_y = int(std::min(group / out.lanes_x, power_from(all_rows)));
  }
  const int64_t groups = divided_up(across, out.lanes_x) * out.blocks;
  const int64_t wanted = divided_up(kGroupsOfUnit * can.compute_units, groups);
  int64_t parts = std::min(wanted, divided_up(all_rows, out.lanes_y * (few ? kLeastRowsOfFew : kLeastRows)));
  if (few && parts <= kParallelLost * kMostFewParts) parts = std::min(parts, kMostFewParts);
  parts = std::max(parts, divided_up(all_rows, out.lanes_y * kMostRows));
  out.rows_of_part = divided_up(all_rows, parts);
  out.parts = divided_up(all_rows, out.rows_of_part);
  if (!can.cpu) out.join_lanes = int(std::min(power_from(out.parts), kMostJoining));
  return out;
}

}  // namespace

std::optional<ChannelParts> channel_parts(const OpenclDevice& device, const TensorDesc& desc, int most_vector) {
  return parts_of(device, desc, most_vector, false);
}

std::optional<ChannelParts> few_channel_parts(const OpenclDevice& device, const TensorDesc& desc) {
  return parts_of(device, desc, 4, true);
}

std::optional<ChannelParts> channel_parts_of_images(const OpenclDevice& device, const TensorDesc& desc) {
  return parts_of(device, desc, 4, false, true);
}

std::optional<ChannelParts> whole_channels(const OpenclDevice& device, const TensorDesc& desc, int64_t* groups) {
  std::optional<ChannelParts> out = channel_parts(device, desc);
  if (!out) return std::nullopt;
  const Capabilities& can = device.capabilities();
  const int64_t all_rows = out->images * out->rows, across = out->wide ? out->width / out->vector : 1;
  if (!can.cpu) {
    int64_t group = 1;
    while (group * 2 <= std::min<int64_t>(kGroupOfWhole, int64_t(can.max_work_group))) group *= 2;
    // As few channels as an access of memory holds: more work-groups read at once.
    const int64_t bytes = int64_t(out->vector) * size_of(desc.dtype);
    out->lanes_x = int(std::min({power_from(across), std::max<int64_t>(1, kAccess / bytes), group}));
    out->lanes_y = int(std::min(group / out->lanes_x, power_from(all_rows)));
  }
  out->rows_of_part = all_rows;
  out->parts = out->join_lanes = 1;
  if (divided_up(all_rows, out->lanes_y) > kMostRows) return std::nullopt;
  *groups = divided_up(across, out->lanes_x) * out->blocks;
  return out;
}

void ChannelParts::define(KernelSource& source) const {
  source.define("VECTOR", vector).define("WIDE", wide ? 1 : 0).define("ONE_IMAGE", images == 1 ? 1 : 0);
  source.define("LANES_X", lanes_x).define("LANES_Y", lanes_y).define("JOIN_LANES", join_lanes);
}

Launch& ChannelParts::walk(Launch& launch) const {
  const cl_int walk[] = {cl_int(images),       cl_int(blocks), cl_int(rows),    cl_int(width),
                         cl_int(rows_of_part), cl_int(parts),  cl_int(channels)};
  return launch.raw(walk, sizeof walk);
}

Launch& ChannelParts::over_parts(Launch& launch) const {
  const int64_t groups = wide ? divided_up(width / vector, lanes_x) : 1;
  return launch.global({size_t(groups * lanes_x), size_t(parts * lanes_y), size_t(blocks)})
      .local({size_t(lanes_x), size_t(lanes_y), 1});
}

Launch& ChannelParts::over_channels(Launch& launch) const {
  return launch.global({size_t(blocks * width * join_lanes), 1, 1}).local({size_t(join_lanes), 1, 1});
}

}  // namespace pl::opencl
