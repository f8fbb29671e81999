// The attributes of ops that slide a window (convolution, pooling) as oneDNN wants them.
#pragma once

#include <vector>

#include "ops/op.h"

namespace pl::onednn {

struct Windows {
  // Reads stride, padding (begins, then ends) and dilation, which oneDNN counts from 0.
  explicit Windows(const Op& op) : stride(op.attributes[attr::stride]), dilation(op.attributes[attr::dilation]) {
    const auto& padding = op.attributes[attr::padding];
    begins.assign(padding.begin(), padding.begin() + ptrdiff_t(padding.size() / 2));
    ends.assign(padding.begin() + ptrdiff_t(padding.size() / 2), padding.end());
    for (int64_t& d : dilation) --d;
  }
  std::vector<int64_t> stride, dilation, begins, ends;
};

}  // namespace pl::onednn
