// Dense tensors as rows for kernels that take them by work-groups, on GPUs (kernels/common/row_groups.clh).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "providers/opencl/row_vectors.h"

namespace pl::opencl {

struct RowGroups {
  RowPieces pieces;  // of the tensor
  bool flat = true;  // a row is one run
  int vector = 1, run_lanes = 1, step_lanes = 1, slots = 1;
  int64_t rows = 1;  // in all
  int64_t kept = 1, part = 1, parts = 1;

  void define(KernelSource& source) const;
  int64_t groups() const;  // work-groups of a launch over all rows
  // `numbers` of f32 for each row and part, and as many for each row.
  size_t stats_bytes(int64_t numbers) const { return size_t((parts + 1) * rows * numbers) * sizeof(float); }
  // Sets the sizes of a launch of one work-group for each part of the rows; of one work-item a row.
  Launch& over_groups(Launch& launch) const;
  Launch& over_rows(Launch& launch) const;
};

// Ways to take the rows of a tensor, the most promising first, at most two: rows whole or in parts.  None where the
// tensor has padding, holes, or no elements, is too large for indices of 32 bits, or its axes follow each other in a
// way that the kernels do not know.  `axes` are memory_axes(desc) with their kinds, some of them split.
std::vector<RowGroups> row_groups(const OpenclDevice& device, const TensorDesc& desc, std::vector<MemoryAxis> axes);
// The same where rows are made of whole dimensions.
std::vector<RowGroups> row_groups(const OpenclDevice& device, const TensorDesc& desc, const std::vector<int>& row_dims,
                                  AxisKind kind = AxisKind::row);

// CPUs have kernels of their own (row_vectors.h): there these are listed for the tuner and for tests alone.
bool offers_row_groups(const OpenclDevice& device, const CandidateList& out);
// An estimate: rows in parts are read twice where what is done needs all of a row first.
double efficiency_of_groups(const OpenclDevice& device, const RowGroups& rows, bool read_again);

}  // namespace pl::opencl
