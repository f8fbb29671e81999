// A tensor as a stack of matrices: where each begins, and the steps within it.
#pragma once

#include <vector>

#include "core/desc.h"

namespace pl::host {

struct Matrices {
  std::vector<int64_t> offsets;  // of each
  int64_t row_step = 0, column_step = 0;

  // `shape` is what the matrices are repeated to; dimensions of size 1 stand still.
  Matrices(const TensorDesc& desc, const Dims& shape) : offsets{0} {
    const int rank = shape.size(), added = rank - desc.rank();
    const auto step = [&](int d) {
      return d < added || (desc.shape[d - added] == 1 && shape[d] != 1) ? 0 : desc.strides[d - added];
    };
    for (int d = 0; d + 2 < rank; ++d) {
      std::vector<int64_t> grown;
      for (int64_t offset : offsets)
        for (int64_t i = 0; i < shape[d]; ++i) grown.push_back(offset + i * step(d));
      offsets = std::move(grown);
    }
    row_step = step(rank - 2);
    column_step = step(rank - 1);
  }
};

}  // namespace pl::host
