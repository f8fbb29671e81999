// What kernels of attention by tiles share: how heads lie, and the sizes of kernels/attention/heads.clh.
#pragma once

#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {

// In which queries, keys, values and results may lie, those that projections of rows give first.
std::vector<Layout> heads_layouts(const Op& op);

// A strided view in the layout as it lies, if its columns are side by side, else dense in the layout: kernels go by
// strides of rows and the offset.
inline TensorDesc as_it_lies(const TensorDesc& desc, const Layout& layout) {
  const bool stays = desc.layout == layout && !desc.is_dense() && desc.strides[desc.rank() - 1] == 1;
  return stays ? desc : desc.with_layout(layout);
}

// (..., l, 1) of queries (..., l, e).
inline Dims queries_of(const Op& op) {
  Dims shape = op.in(0).shape;
  shape[shape.size() - 1] = 1;
  return shape;
}

// Dropout, where the op's input `seed` is given: bits of all weights, in the workspace from `at` on (bytes), are drawn
// by a launch of their own and passed to others (kernels/attention/dropout.clh).
struct DropoutBits {
  int seed = -1;               // the input's number, -1: nothing is dropped
  int64_t rows = 0, keys = 0;  // queries of all heads; keys
  size_t at = 0;

  DropoutBits(const Op& op, int seed, size_t at);
  size_t bytes() const;
  void draw(KernelList& kernel, const Op& op) const;
  void define(KernelSource& source, const Op& op) const;
  void pass(Launch& launch) const;
};

// What kernels of attention read and write, as rows (kernels/common/rows.clh): Q, K, V and DST, and MASK and SINKS where
// the op has them; and SOFTCAP, CAUSAL and GROUP, its heads of q that share one of k and v.
void define_attention(KernelSource& source, const Op& op, const Candidate& candidate);

// All rows of a tensor, of eight dimensions (rows.h), begin at multiples of `elements`.
bool rows_aligned(const Addressing& rows, int64_t elements);

// Pieces of 16 bytes from one row of a tile to the next, where a step of the unit takes `step` of them: ROW_PITCH.
int64_t row_pitch(int64_t elements, int64_t bits, int64_t step);

inline int64_t rounded_up(int64_t value, int64_t by) { return (value + by - 1) / by * by; }

}  // namespace pl::opencl
