#include "providers/opencl/addressing/row_vectors.h"

#include <algorithm>

#include "providers/opencl/addressing/quads.h"

namespace pl::opencl {
namespace {

constexpr int kSums = 4;  // sums of a work-item that do not wait for each other

bool contains(const std::vector<int>& dims, int dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

// Without axes of size 1; those of one dimension that follow each other are one.
std::vector<MemoryAxis> joined_by_dim(const std::vector<MemoryAxis>& axes) {
  std::vector<MemoryAxis> out;
  for (const MemoryAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!out.empty() && out.back().dim == axis.dim)
      out.back().size *= axis.size;
    else
      out.push_back(axis);
  }
  return out;
}

// Vectors for `size` neighbours, and how many work-items take: false where there are too few.
bool choose_vectors(const OpenclDevice& device, int64_t size, RowVectors& rows) {
  rows.vector = device.capabilities().native_vector_float >= 16 ? 16 : 8;
  while (rows.vector > size) rows.vector /= 2;
  if (rows.vector < 4) return false;
  rows.columns = 1;
  while (rows.columns < kSums && rows.width() * 2 <= size) rows.columns *= 2;
  if (rows.across) {  // enough work-items for all processors
    const int64_t wanted = 4 * int64_t(device.capabilities().compute_units);
    while (rows.columns > 1 && rows.outer * (size / rows.width()) < wanted) rows.columns /= 2;
  }
  rows.spread = rows.steps > 1 ? kSums / rows.columns : 1;
  return true;
}

}  // namespace

std::vector<MemoryAxis> memory_axes(const TensorDesc& desc) {
  const Addressing a(desc);
  std::vector<MemoryAxis> axes;
  for (int dim : a.order) axes.push_back({dim, a.padded(dim) / a.block(dim)});
  for (const Addressing::Inner& inner : a.inner) axes.push_back({inner.dim, inner.size});
  return axes;
}

void RowVectors::define(KernelSource& source) const {
  source.define("VECTOR", vector).define("COLUMNS", columns);
  source.define("SPREAD", spread).define("ACROSS", across ? 1 : 0);
}

Launch& RowVectors::walk(Launch& launch) const {
  const cl_int sizes[] = {cl_int(outer), cl_int(blocks), cl_int(steps), cl_int(inner), cl_int(run)};
  return launch.raw(sizes, sizeof sizes);
}

Launch& RowVectors::global(Launch& launch, const OpenclDevice& device) const {
  const std::vector<size_t> sizes{size_t(across ? (inner + width() - 1) / width() : inner), size_t(outer)};
  return launch.global(sizes).local(group_of_vectors(device, sizes));
}

std::optional<RowPieces> row_pieces(const TensorDesc& desc, const std::vector<MemoryAxis>& axes) {
  if (!desc.is_dense() || desc.has_padding()) return std::nullopt;
  if (desc.elements() == 0 || desc.elements() >= kNarrowLimit) return std::nullopt;
  std::vector<MemoryAxis> merged;
  for (const MemoryAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!merged.empty() && merged.back().kind == axis.kind)
      merged.back().size *= axis.size;
    else
      merged.push_back(axis);
  }
  RowPieces rows;
  size_t next = 0;
  const auto left = [&] { return merged.size() - next; };
  const auto kept = [&](size_t i) { return next + i < merged.size() && merged[next + i].kind == AxisKind::kept; };
  if (kept(0)) rows.outer = merged[next++].size;
  if (left() == 0) return std::nullopt;  // rows of one element
  const auto take_run = [&] {
    rows.run = merged[next].size;
    rows.run_kind = merged[next++].kind;
  };
  const auto take_steps = [&] {
    rows.steps = merged[next].size;
    rows.steps_kind = merged[next++].kind;
  };
  const auto take_blocks = [&] {
    rows.blocks = merged[next].size;
    rows.blocks_kind = merged[next++].kind;
  };
  if (left() == 2 && kept(1)) {
    take_steps();
    rows.across = true;
    rows.inner = merged[next++].size;
  } else if (left() == 3 && kept(1)) {
    take_steps();
    rows.inner = merged[next++].size;
    take_run();
  } else if (left() == 1) {
    take_run();
  } else if (left() == 2) {
    merged[next].kind == AxisKind::weighted ? take_blocks() : take_steps();
    take_run();
  } else if (left() == 3 && !kept(2)) {
    take_blocks();
    take_steps();
    take_run();
  }
  if (left() != 0) return std::nullopt;
  return rows;
}

std::optional<RowVectors> row_vectors(const OpenclDevice& device, const TensorDesc& desc,
                                      std::vector<MemoryAxis> axes) {
  if (!device.capabilities().cpu) return std::nullopt;
  const auto pieces = row_pieces(desc, axes);
  if (!pieces) return std::nullopt;
  RowVectors rows{*pieces};
  if (!choose_vectors(device, rows.across ? rows.inner : rows.run, rows)) return std::nullopt;
  return rows;
}

std::vector<MemoryAxis> axes_of_rows(const TensorDesc& desc, const std::vector<int>& row_dims, AxisKind kind) {
  std::vector<MemoryAxis> axes = memory_axes(desc);
  for (MemoryAxis& axis : axes)
    if (contains(row_dims, axis.dim)) axis.kind = kind;
  return axes;
}

std::optional<RowVectors> row_vectors(const OpenclDevice& device, const TensorDesc& desc,
                                      const std::vector<int>& row_dims, AxisKind kind) {
  return row_vectors(device, desc, axes_of_rows(desc, row_dims, kind));
}

bool in_order_of_rows(const TensorDesc& result, const TensorDesc& rows_of, const std::vector<int>& row_dims,
                      bool keepdim) {
  if (!result.is_dense() || result.has_padding()) return false;
  std::vector<MemoryAxis> wanted, got = joined_by_dim(memory_axes(result));
  for (const MemoryAxis& axis : memory_axes(rows_of))
    if (!contains(row_dims, axis.dim)) wanted.push_back(axis);
  wanted = joined_by_dim(wanted);
  if (!keepdim)
    for (MemoryAxis& axis : wanted)
      axis.dim -= int(std::count_if(row_dims.begin(), row_dims.end(), [&](int dim) { return dim < axis.dim; }));
  return std::equal(wanted.begin(), wanted.end(), got.begin(), got.end(),
                    [](const MemoryAxis& a, const MemoryAxis& b) { return a.dim == b.dim && a.size == b.size; });
}

bool in_order_of_indices(const TensorDesc& desc, const std::vector<int>& row_dims) {
  std::vector<MemoryAxis> row;
  for (const MemoryAxis& axis : memory_axes(desc))
    if (contains(row_dims, axis.dim)) row.push_back(axis);
  row = joined_by_dim(row);
  return std::is_sorted(row.begin(), row.end(),
                        [](const MemoryAxis& a, const MemoryAxis& b) { return a.dim <= b.dim; });
}

}  // namespace pl::opencl
