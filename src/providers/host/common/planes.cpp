#include "providers/host/common/planes.h"

namespace pl::host {

std::optional<Planes> Planes::of(const TensorDesc& desc) {
  const int rank = desc.rank(), spatial = rank - 2;
  if (spatial < 1 || spatial > 3) return std::nullopt;
  Planes planes;
  planes.images = desc.shape[0];
  planes.image_step = desc.strides[0];
  planes.group_step = desc.strides[1];
  const Layout& layout = desc.layout;
  if (layout.is_plain()) {
    planes.groups = desc.shape[1];
    planes.width = 1;
  } else if (layout.is_channels_last()) {
    planes.groups = 1;
    planes.width = desc.shape[1];
  } else if (const int block = layout.channel_block()) {
    planes.width = block;
    planes.groups = (desc.shape[1] + planes.width - 1) / planes.width;
  } else {
    return std::nullopt;
  }
  for (int i = 0; i < spatial; ++i) {
    planes.size[3 - spatial + i] = desc.shape[2 + i];
    planes.step[3 - spatial + i] = desc.strides[2 + i];
  }
  return planes;
}

}  // namespace pl::host
