#include "providers/opencl/attention/heads.h"

#include <algorithm>
#include <cmath>

#include "providers/head_layouts.h"
#include "providers/opencl/pointwise/random.h"

namespace pl::opencl {

std::vector<Layout> heads_layouts(const Op& op) {
  std::vector<Layout> layouts = head_layouts(op.in(0).shape);
  std::stable_partition(layouts.begin(), layouts.end(), [](const Layout& layout) { return !layout.is_plain(); });
  return layouts;
}

void define_dropout(KernelSource& source, const Op& op, int seed) {
  if (!op.has(seed)) return;
  const double p = op.attributes[attr::dropout_p];
  define_seed(source, op.in(seed));
  source.define("DROPOUT_HIGHEST", concat(uint64_t(std::ceil(p * 4294967296.0)) - 1, "u"));
  source.define("DROPOUT_SCALE", 1 / (1 - p));
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
