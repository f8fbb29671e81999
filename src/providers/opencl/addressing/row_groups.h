// Dense tensors as rows for kernels that take them by work-groups, on GPUs (kernels/common/row_groups.clh).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "providers/opencl/addressing/row_vectors.h"

namespace pl::opencl {

struct RowGroups {
  RowPieces pieces;  // of the tensor
  bool flat = true;  // a row is one run
  int vector = 1, run_lanes = 1, step_lanes = 1, slots = 1;
  int64_t rows = 1;  // in all
  int64_t kept = 1, part = 1, parts = 1;
  int64_t local_kept = 0;  // of the vectors that a work-item keeps, those in local memory
  bool alone = false;      // a work-group has a multiprocessor alone
  int lines = 0;           // NVIDIA: bytes that are fetched together, for neighbouring work-groups too

  void define(KernelSource& source) const;
  int lanes() const { return run_lanes * step_lanes; }  // work-items that share a row
  int64_t groups() const;                               // work-groups of a launch over all rows
  // `numbers` of f32 for each row and part, and as many for each row.
  size_t stats_bytes(int64_t numbers) const { return size_t((parts + 1) * rows * numbers) * sizeof(float); }
  // Sets the sizes of a launch of one work-group for each part of the rows; of one work-item a row.
  Launch& over_groups(Launch& launch) const;
  Launch& over_rows(Launch& launch) const;
};

// How a kernel takes rows.
struct RowWay {
  const char* name;     // behind that of the kernel
  bool parts = false;   // rows in parts, rather than whole
  int lanes = 0;        // of work-items that share a row: twice as many (1), half as many (-1)
  bool narrow = false;  // no more rows side by side than must be, where rows lie in pieces
  bool wide = false;    // more than 256 work-items a row, rather than some of what they keep in local memory
  bool alone = false;   // as much as a multiprocessor holds, even where that leaves few work-groups
};
// Rows whole and rows in parts; for the tuner and for tests (`whole_space`) also more or fewer work-items a row.
const std::vector<RowWay>& row_ways(bool whole_space);

// What a kernel makes of rows.
struct RowUse {
  bool held = false;   // they are held as they lie in memory (GROUP_HOLD): two of 16 bits in a register
  bool local = false;  // some may be in local memory (GROUP_HOLD_ALL)
  bool eights = true;  // vectors across rows may have 8 of 16 bits
};

// Nothing where the tensor has padding, holes, or no elements, is too large for indices of 32 bits, its axes follow
// each other in a way that the kernels do not know, or its rows cannot be taken in this way.  `axes` are
// memory_axes(desc) with their kinds, some of them split.
std::optional<RowGroups> row_groups(const OpenclDevice& device, const TensorDesc& desc,
                                    const std::vector<MemoryAxis>& axes, const RowWay& way, const RowUse& use);

// CPUs have kernels of their own (row_vectors.h): there these are listed for the tuner and for tests alone.
bool offers_row_groups(const OpenclDevice& device, const CandidateList& out);
// An estimate: rows in parts are read twice where what is done needs all of a row first.
double efficiency_of_groups(const OpenclDevice& device, const RowGroups& rows, bool read_again);
// That of a kernel for any layout which reads rows of `size` of the elements, on GPUs by a work-group each, and reaches
// `most` where there are many.
double efficiency_by_rows(const OpenclDevice& device, int64_t elements, int64_t size, double most);

}  // namespace pl::opencl
