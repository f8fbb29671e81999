#include "providers/opencl/reduce/row_sort.h"

#include <algorithm>
#include <utility>

#include "providers/opencl/addressing/rows.h"

namespace pl::opencl {
namespace {

constexpr int64_t kWays = 8;                 // lists that are merged at once
constexpr int64_t kSearchers = 64;           // work-items of a group that merges
constexpr int64_t kTileBytes = 16 << 10;     // of local memory: half of the 32 KiB that OpenCL asks of devices
constexpr int64_t kGrowth = 4;               // from one size of tiles to the next: few programs serve all rows
constexpr int64_t kGroupElements = 256;      // small tiles share a work-group
constexpr int64_t kMost = int64_t(1) << 31;  // what kernels count in 32 bits

}  // namespace

RowSort::RowSort(DType dtype, int64_t rows, int64_t size, int64_t k, bool largest)
    : rows_(rows), size_(size), k_(k), largest_(largest), key_bytes_(dtype == DType::s64 ? 16 : 8) {
  while (tile_ < size && tile_ * kGrowth * key_bytes_ <= kTileBytes) tile_ *= kGrowth;
  tiles_ = {(size + tile_ - 1) / tile_, std::min(k, tile_)};
}

bool RowSort::possible() const { return rows_ < kMost / size_ && size_ < kMost / (2 * kWays); }

RowSort::Lists RowSort::merged(const Lists& from) const {
  return {(from.count + kWays - 1) / kWays, std::min(k_, from.length * kWays)};
}

// Keys of the lists of all rows where there are most of them.  Merging goes from one region of as many to another.
int64_t RowSort::region(bool results) const {
  int64_t most = results ? 0 : rows_ * k_;
  for (Lists lists = tiles_; lists.count > 1; lists = merged(lists))
    most = std::max(most, rows_ * lists.count * lists.length);
  return most;
}

KernelSource RowSort::source(const char* file, const Addressing& src, const Results* results) const {
  KernelSource source(file);
  source.tensor("SRC", src);
  if (results) source.tensor("VALUES", results->values).tensor("INDICES", results->indices);
  source.define("RESULTS", results ? 1 : 0).define("LARGEST", largest_ ? 1 : 0);
  return source.define("KEY_BITS", key_bytes_ == 16 ? 64 : 32);
}

int64_t RowSort::add_steps(KernelList& kernels, OpenclDevice& device, const Addressing& src,
                           const Results* results) const {
  const auto pass_src = [&](Launch& launch) {
    if (results)
      launch.input(0, "SRC");
    else
      launch.workspace("SRC");
  };
  const Results* of_tiles = tiles_.count == 1 ? results : nullptr;
  KernelSource tiles = source("topk/topk_tiles.cl", src, of_tiles);
  const int64_t side_by_side = std::max<int64_t>(1, kGroupElements / tile_);
  int64_t sorters = std::min<int64_t>(tile_ * side_by_side / 2, 256);
  while (sorters > 1 && sorters > int64_t(device.capabilities().max_work_group)) sorters /= 2;
  tiles.define("TILE", tile_).define("TILES", side_by_side).define("SORTERS", sorters);
  Launch& sort = kernels.add(tiles, "topk_tiles");
  pass_src(sort);
  if (of_tiles)
    sort.output(0, "VALUES").output(1, "INDICES");
  else
    sort.workspace();
  sort.index(size_).index(rows_).index(tiles_.count).index(tiles_.length).index(of_tiles ? of_tiles->skip : 0);
  const int64_t groups = (rows_ * tiles_.count + side_by_side - 1) / side_by_side;
  sort.global({size_t(groups * sorters)}).local({size_t(sorters)});

  int64_t from = 0, to = region(results != nullptr);
  for (Lists lists = tiles_; lists.count > 1; std::swap(from, to)) {
    const Lists next = merged(lists);
    const Results* last = next.count == 1 ? results : nullptr;
    KernelSource merge = source("topk/topk_merge.cl", src, last);
    merge.define("WAYS", kWays).define("SEARCHERS", kSearchers);
    Launch& launch = kernels.add(merge, "topk_merge");
    if (last) {
      pass_src(launch);
      launch.output(0, "VALUES").output(1, "INDICES");
    }
    const int64_t of_part = (lists.length * kWays + kSearchers - 1) / kSearchers;
    launch.workspace().scalar(cl_ulong(from)).scalar(cl_ulong(to)).scalar(cl_uint(lists.length));
    launch.scalar(cl_uint(lists.count)).scalar(cl_uint(next.length)).scalar(cl_uint(of_part));
    launch.scalar(cl_uint(next.count)).scalar(cl_uint(last ? last->skip : 0));
    launch.global({size_t(rows_ * next.count * of_part * kSearchers)}).local({size_t(kSearchers)});
    lists = next;
  }
  return from;
}

void RowSort::add(KernelList& kernels, OpenclDevice& device, const Addressing& src, const Results& results) const {
  add_steps(kernels, device, src, &results);
}

size_t RowSort::workspace_bytes() const { return size_t(2 * region(true) * key_bytes_); }

int64_t RowSort::add_lists(KernelList& kernels, OpenclDevice& device) const {
  Addressing numbers = as_rows(TensorDesc::dense(DType::s32, Dims{rows_, size_}), {1});
  numbers.offset = first_number();
  return add_steps(kernels, device, numbers, nullptr);
}

size_t RowSort::lists_workspace_bytes() const { return size_t(first_number() + rows_ * size_) * size_of(DType::s32); }

int64_t RowSort::first_number() const { return 2 * region(false) * key_bytes_ / int64_t(size_of(DType::s32)); }

}  // namespace pl::opencl
