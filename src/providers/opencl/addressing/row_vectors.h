// Dense tensors as rows for kernels that take them by vectors, on CPUs (kernels/common/row_vectors.clh).
//
// In the order of memory a tensor is axes that belong to rows and axes that name them.  Where these follow each other
// as (outer, blocks, steps, inner, run), any of them of size 1, one kernel walks any layout.
#pragma once

#include <optional>
#include <vector>

#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

enum class AxisKind {
  kept,     // names rows
  row,      // belongs to a row
  weighted  // belongs to a row, and what is read beside it (weights of a normalisation) lies along it
};

struct MemoryAxis {
  int dim;
  int64_t size;
  AxisKind kind = AxisKind::kept;
};

// The axes of a tensor, outermost first; a blocked dimension is several.
std::vector<MemoryAxis> memory_axes(const TensorDesc& desc);

// Rows as such axes.
struct RowPieces {
  int64_t outer = 1, blocks = 1, steps = 1, inner = 1, run = 1;
  bool across = false;  // elements of a row are apart (run is 1): vectors go across rows
  AxisKind blocks_kind = AxisKind::row, steps_kind = AxisKind::row, run_kind = AxisKind::row;
};

struct RowVectors : RowPieces {
  int vector = 16, columns = 1, spread = 1;

  int64_t width() const { return int64_t(vector) * columns; }
  // Whether no two work-items write the same places.
  bool apart() const { return !across || inner % width() == 0; }
  void define(KernelSource& source) const;
  Launch& walk(Launch& launch) const;                                // passes `const row_walk walk`
  Launch& global(Launch& launch, const OpenclDevice& device) const;  // sets the sizes of the launch
};

// Nothing where the tensor has padding, holes or no elements, is too large for indices of 32 bits, or its axes follow
// each other in another way.  `axes` are memory_axes(desc) with their kinds, some of them split.
std::optional<RowPieces> row_pieces(const TensorDesc& desc, const std::vector<MemoryAxis>& axes);
// memory_axes, those of `row_dims` of this kind.
std::vector<MemoryAxis> axes_of_rows(const TensorDesc& desc, const std::vector<int>& row_dims, AxisKind kind);

// Nothing where there are no pieces, the device is no CPU, or what lies side by side is shorter than a vector.
std::optional<RowVectors> row_vectors(const OpenclDevice& device, const TensorDesc& desc, std::vector<MemoryAxis> axes);
// The same where rows are made of whole dimensions.
std::optional<RowVectors> row_vectors(const OpenclDevice& device, const TensorDesc& desc,
                                      const std::vector<int>& row_dims, AxisKind kind = AxisKind::row);

// Whether a tensor with an element for each row of `rows_of`, which keeps the other dimensions (with `keepdim` those of
// a row too, of size 1), has them in the order of the rows.
bool in_order_of_rows(const TensorDesc& result, const TensorDesc& rows_of, const std::vector<int>& row_dims,
                      bool keepdim);
// Whether the elements of a row lie in the order of their indices.
bool in_order_of_indices(const TensorDesc& desc, const std::vector<int>& row_dims);

}  // namespace pl::opencl
