// Dense activations as kernels see them that work by channels (kernels/common/channel_parts.clh).
#pragma once

#include <optional>

#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

struct ChannelParts {
  bool wide = false;  // channels lie side by side, rather than positions
  int vector = 1, lanes_x = 1, lanes_y = 1, join_lanes = 1;
  int64_t images = 1, blocks = 1, rows = 1, width = 1;  // rows: of vectors where not wide
  int64_t rows_of_part = 1, parts = 1;
  int64_t channels = 1;

  void define(KernelSource& source) const;
  Launch& walk(Launch& launch) const;           // passes `const channel_walk walk`
  Launch& over_parts(Launch& launch) const;     // sets the sizes of a launch of a work-group for each part of channels
  Launch& over_channels(Launch& launch) const;  // of one for each channel, JOIN_LANES work-items
  size_t workspace_bytes() const { return size_t((2 * parts + 4) * blocks * width) * sizeof(float); }
};

// Nothing for tensors that are neither channels first, nor channels last, nor in blocks of channels, that are too large
// for indices of 32 bits, or whose elements are no floating numbers.  Vectors are of `most_vector` elements at most.
std::optional<ChannelParts> channel_parts(const OpenclDevice& device, const TensorDesc& desc, int most_vector = 4);

// The same in at most kMostFewParts parts, unless a GPU would have far too little to do at a time: so few that each
// work-group of a second launch may read what all parts of its channels gave.
constexpr int64_t kMostFewParts = 64;
std::optional<ChannelParts> few_channel_parts(const OpenclDevice& device, const TensorDesc& desc);

// The same in one part: a work-group takes all rows of a few channels.  `groups`: how many there are.
std::optional<ChannelParts> whole_channels(const OpenclDevice& device, const TensorDesc& desc, int64_t* groups);

// The same where channels of different images are different channels: image by image, and in each in the order of memory.
std::optional<ChannelParts> channel_parts_of_images(const OpenclDevice& device, const TensorDesc& desc);

}  // namespace pl::opencl
