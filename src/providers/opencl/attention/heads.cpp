#include "providers/opencl/attention/heads.h"

#include <utility>

namespace pl::opencl {

Layout heads_layout(int rank, bool swapped) {
  std::string text;
  for (int i = 0; i < rank; ++i) text += char('a' + i);
  if (swapped) std::swap(text[size_t(rank) - 3], text[size_t(rank) - 2]);
  return Layout::parse(text);
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
