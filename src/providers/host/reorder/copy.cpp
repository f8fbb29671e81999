#include "providers/host/reorder/copy.h"

#include <algorithm>
#include <cstring>

namespace pl::host {
namespace {

constexpr double kNanoseconds = 0.3;  // of one element on one core

template <size_t Bytes>
void copy_rows(const char* source, int64_t source_step, char* target, int64_t target_step, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) std::memcpy(target + i * target_step, source + i * source_step, Bytes);
}

}  // namespace

CopyNests::CopyNests(const Dims& shape, const Operand& target, const Operand& source)
    : source_bytes_(size_of(source.desc.dtype)),
      target_bytes_(size_of(target.desc.dtype)),
      same_dtype_(source.desc.dtype == target.desc.dtype),
      convert_(converter(source.desc.dtype, target.desc.dtype)),
      transpose_(transposer(target_bytes_)) {
  for (Nest& nest : make_nests(shape, {target, source})) {
    Part part;
    if (nest.loops.size() == 1) {
      part.way = Way::line;
      part.inner = nest.loops[0];
      part.nest = std::move(nest);
      parts_.push_back(std::move(part));
      continue;
    }
    part.inner = nest.loops.back();
    nest.loops.pop_back();
    part.way = part.inner.stride[0] == 1 && part.inner.stride[1] == 1 ? Way::rows : Way::scattered;
    if (part.way == Way::scattered && part.inner.stride[0] == 1) {
      // The loop along which the source is contiguous becomes the next one.
      const auto contiguous =
          std::find_if(nest.loops.begin(), nest.loops.end(), [](const Loop& loop) { return loop.stride[1] == 1; });
      if (contiguous != nest.loops.end()) {
        std::rotate(contiguous, contiguous + 1, nest.loops.end());
        part.way = Way::transpose;
      }
    }
    part.nest = std::move(nest);
    parts_.push_back(std::move(part));
  }
}

void CopyNests::rows(const Part& part, const void* source, void* target, const int64_t* offsets, int64_t n) const {
  const Loop& row = part.nest.run();
  const int64_t length = part.inner.size;
  if (!same_dtype_) {
    for (int64_t i = 0; i < n; ++i)
      convert_(source, offsets[1] + i * row.stride[1], 1, target, offsets[0] + i * row.stride[0], 1, length);
    return;
  }
  const char* from = at(source, offsets[1], source_bytes_);
  char* to = at(target, offsets[0], target_bytes_);
  const int64_t from_step = row.stride[1] * int64_t(source_bytes_), to_step = row.stride[0] * int64_t(target_bytes_);
  const size_t bytes = size_t(length) * source_bytes_;
  switch (bytes) {  // blocks of channels
    case 64: return copy_rows<64>(from, from_step, to, to_step, n);
    case 32: return copy_rows<32>(from, from_step, to, to_step, n);
    case 16: return copy_rows<16>(from, from_step, to, to_step, n);
    default:
      for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_step, from + i * from_step, bytes);
  }
}

void CopyNests::transpose(const Part& part, const void* source, void* target, const int64_t* offsets, int64_t n) const {
  const int64_t target_step = part.nest.run().stride[0], source_step = part.inner.stride[1];
  const int64_t columns = part.inner.size;
  if (same_dtype_) {
    transpose_(at(source, offsets[1], source_bytes_), source_step, at(target, offsets[0], target_bytes_), target_step,
               columns, n);
    return;
  }
  // Converted tile by tile on the way.
  constexpr int64_t kRows = 64, kColumns = 16;
  int64_t tile[kRows * kColumns];  // elements of up to 8 bytes
  for (int64_t b = 0; b < n; b += kRows)
    for (int64_t a = 0; a < columns; a += kColumns) {
      const int64_t tile_rows = std::min(kRows, n - b), tile_columns = std::min(kColumns, columns - a);
      for (int64_t i = 0; i < tile_columns; ++i)
        convert_(source, offsets[1] + (a + i) * source_step + b, 1, tile, i * kRows, 1, tile_rows);
      transpose_(tile, kRows, at(target, offsets[0] + b * target_step + a, target_bytes_), target_step, tile_columns,
                 tile_rows);
    }
}

void CopyNests::run(const void* source, void* target) const {
  for (const Part& part : parts_) {
    if (part.way == Way::line) {
      for_each_run(part.nest, kNanoseconds, [&](const int64_t* offsets, int64_t n) {
        convert_(source, offsets[1], part.inner.stride[1], target, offsets[0], part.inner.stride[0], n);
      });
      continue;
    }
    for_each_run(part.nest, kNanoseconds * double(part.inner.size), [&](const int64_t* offsets, int64_t n) {
      if (part.way == Way::rows) return rows(part, source, target, offsets, n);
      if (part.way == Way::transpose) return transpose(part, source, target, offsets, n);
      const Loop& row = part.nest.run();
      for (int64_t i = 0; i < n; ++i)
        convert_(source, offsets[1] + i * row.stride[1], part.inner.stride[1], target, offsets[0] + i * row.stride[0],
                 part.inner.stride[0], part.inner.size);
    });
  }
}

}  // namespace pl::host
