// TensorDesc: what a tensor is, without its data: dtype, logical shape, layout, strides.
//
// The element (i_0 .. i_r-1) lies at
//   offset + sum over dims d of (i_d / block_d) * strides[d] + inner(i_d % block_d)
// where block_d is the product of d's inner blocks and `inner` follows from the layout's block list.
// Shapes are always logical, (n, c, h, w) whatever the order in memory.  Along a blocked dimension memory
// is padded up to a multiple of the block; padding elements are zero, always.
#pragma once

#include <cstdint>
#include <string>

#include "core/dims.h"
#include "core/dtype.h"
#include "core/layout.h"

namespace pl {

struct TensorDesc {
  DType dtype = DType::f32;
  bool present = false;  // false: an optional input that was not given
  Dims shape;
  Layout layout;
  Dims strides;        // per dimension, in elements, between outer blocks
  int64_t offset = 0;  // of the first element, in elements

  // A dense tensor; checks sizes (negative, overflow of 2^62 bytes) and that the layout fits the rank.
  static TensorDesc dense(DType dtype, const Dims& shape, const Layout& layout);
  static TensorDesc dense(DType dtype, const Dims& shape);  // plain layout
  // A strided tensor in a plain order (a NumPy array); strides in elements, non-negative.
  static TensorDesc strided(DType dtype, const Dims& shape, const Dims& strides);

  int rank() const { return shape.size(); }
  int64_t elements() const { return shape.product(); }  // logical
  Dims padded_shape() const;                            // sizes rounded up to whole blocks
  int64_t padded_elements() const { return padded_shape().product(); }
  bool is_dense() const;  // nothing but block padding between elements, offset 0
  bool has_padding() const { return padded_elements() != elements(); }
  int64_t extent() const;  // elements from 0 to the last one touched, offset and padding included
  size_t size_bytes() const { return size_t(extent()) * size_of(dtype); }  // the storage this desc needs

  int64_t offset_of(const Dims& index) const;  // in elements
  // The same logical tensor, dense in another layout or dtype.
  TensorDesc with_layout(const Layout& other) const { return dense(dtype, shape, other); }
  TensorDesc with_dtype(DType other) const;  // keeps layout; dense

  uint64_t hash() const;
  std::string str(bool weights = false) const;  // f32 (1, 64, 56, 56) nChw16c, or OIHW
};

bool operator==(const TensorDesc& a, const TensorDesc& b);
inline bool operator!=(const TensorDesc& a, const TensorDesc& b) { return !(a == b); }

// True when both describe the same bytes at the same places, though the layouts may be spelled
// differently: the order of dimensions of size 1 does not matter (C = 1, H = W = 1).
bool same_memory(const TensorDesc& a, const TensorDesc& b);

}  // namespace pl
