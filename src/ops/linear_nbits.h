// The weight of linear_nbits as other ops compute it, for gradients and for devices without a kernel of their own.
#pragma once

#include "ops/gradient.h"

namespace pl {

// How the weight of a call is cut.
struct WeightBlocks {
  explicit WeightBlocks(const Op& op);

  int64_t bits, block;    // of a number, and the numbers of a block
  int64_t depth, blocks;  // numbers of a row that count, and the blocks that hold them
  int64_t block_bytes() const { return block * bits / 8; }
};

struct UnpackedWeight {
  Builder::Value numbers;  // (n, blocks, block_size) in f32, less their zero points
  Builder::Value weight;   // (n, k) in the dtype of `scale`
};

// `op`: linear_nbits; zero_point: kNone where there is none.
UnpackedWeight unpacked_weight(Builder& builder, const Op& op, Builder::Value weight, Builder::Value scale,
                               Builder::Value zero_point);

}  // namespace pl
