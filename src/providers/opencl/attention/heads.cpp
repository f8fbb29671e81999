#include "providers/opencl/attention/heads.h"

#include <algorithm>

#include "providers/head_layouts.h"

namespace pl::opencl {

std::vector<Layout> heads_layouts(const Op& op) {
  std::vector<Layout> layouts = head_layouts(op.in(0).shape);
  std::stable_partition(layouts.begin(), layouts.end(), [](const Layout& layout) { return !layout.is_plain(); });
  return layouts;
}

bool rows_aligned(const Addressing& rows, int64_t elements) {
  if (rows.offset % elements) return false;
  for (int d = 0; d < 7; ++d)
    if (rows.dims[size_t(d)] > 1 && rows.strides[size_t(d)] % elements) return false;
  return true;
}

int64_t row_pitch(int64_t elements, int64_t bits, int64_t step) {
  const int64_t piece = 128 / bits;
  return rounded_up((elements + piece - 1) / piece, step) | 1;
}

}  // namespace pl::opencl
