#include "ops/view.h"

#include <algorithm>

namespace pl {
namespace {

using Blocks = std::vector<Layout::Block>;

Blocks blocks_of(const Layout& layout) {
  Blocks blocks;
  for (int i = 0; i < layout.block_count(); ++i) blocks.push_back(layout.block(i));
  return blocks;
}

// The distance in memory between neighbours along block `at`.
int64_t inner_stride(const Blocks& blocks, size_t at) {
  int64_t stride = 1;
  for (size_t i = at + 1; i < blocks.size(); ++i) stride *= blocks[i].size;
  return stride;
}

int64_t block_size(const Blocks& blocks, int dim) {
  int64_t size = 1;
  for (const auto& block : blocks)
    if (block.dim == dim) size *= block.size;
  return size;
}

// Names the layout of strided, perhaps blocked memory.  Strides of dimensions that fit in one block are never used;
// they become those of a dense tensor, so that equal memory has equal descriptions.
TensorDesc describe(DType dtype, const Dims& shape, const Dims& strides, const Blocks& blocks, int64_t offset) {
  const int rank = shape.size();
  if (shape.product() == 0) return TensorDesc::dense(dtype, shape);
  const auto used = [&](int dim) { return shape[dim] > block_size(blocks, dim); };
  const auto fits = [&](const Layout& order) {  // strides never grow from the outermost dimension to the innermost
    int64_t last = -1;
    for (int i = 0; i < rank; ++i) {
      const int dim = order.order(i);
      if (!used(dim)) continue;
      if (last >= 0 && strides[dim] > last) return false;
      last = strides[dim];
    }
    return true;
  };
  int8_t order[kMaxRank];
  const auto take = [&](const Layout& layout) {
    for (int i = 0; i < rank; ++i) order[i] = int8_t(layout.order(i));
  };
  if (fits(Layout::plain(rank))) {
    take(Layout::plain(rank));
  } else if (fits(Layout::channels_last(rank))) {
    take(Layout::channels_last(rank));
  } else {
    take(Layout::plain(rank));
    std::stable_sort(order, order + rank, [&](int8_t a, int8_t b) { return strides[a] > strides[b]; });
  }
  TensorDesc desc = TensorDesc::dense(dtype, shape, Layout::make(order, rank, blocks.data(), int(blocks.size())));
  for (int i = 0; i < rank; ++i)
    if (used(i)) desc.strides[i] = strides[i];
  desc.offset = offset;
  return desc;
}

// Strides of x without its blocks, if every blocked dimension advances evenly in memory: it fits in its innermost
// block, or its blocks follow one another without anything between them.
std::optional<Dims> strides_without_blocks(const TensorDesc& x) {
  const Blocks blocks = blocks_of(x.layout);
  Dims strides = x.strides;
  for (int dim = 0; dim < x.rank(); ++dim) {
    int64_t covered = 1, step = 0;  // elements of the levels seen so far, distance between neighbours
    const auto level = [&](int64_t stride, int64_t size) {
      if (x.shape[dim] <= covered && step) return true;
      if (!step) step = stride;
      if (stride != covered * step) return false;
      covered *= size;
      return true;
    };
    for (size_t i = blocks.size(); i-- > 0;)
      if (blocks[i].dim == dim && !level(inner_stride(blocks, i), blocks[i].size)) return std::nullopt;
    if (!level(x.strides[dim], 1)) return std::nullopt;
    strides[dim] = step;
  }
  return strides;
}

struct Axis {
  int64_t size = 1, stride = 0;
  int dim = -1;  // of the tensor it belongs to
  bool blocked = false;
};

// Fills the strides of `after`, a row-major regrouping of the elements of `before`; both hold the same number of
// elements.  False where a stretch of `after` is not evenly spaced in memory.
bool regroup(const std::vector<Axis>& before, std::vector<Axis>& after) {
  size_t j = after.size();
  for (size_t i = before.size(); i > 0;) {
    // A stretch of dimensions that are contiguous among themselves.
    const int64_t step = before[i - 1].stride;
    int64_t elements = before[--i].size;
    while (i > 0 && before[i - 1].stride == elements * step) elements *= before[--i].size;
    int64_t covered = 1;
    while (j > 0 && covered < elements) {
      after[--j].stride = covered * step;
      covered *= after[j].size;
    }
    if (covered != elements) return false;
  }
  return j == 0;
}

// The reshape of x with these strides and blocks; a dimension with blocks must be a dimension of the new shape too.
std::optional<TensorDesc> reshape(const TensorDesc& x, const Dims& strides, const Blocks& blocks, const Dims& shape) {
  std::vector<Axis> before, after;
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape[i] != 1) before.push_back({x.shape[i], strides[i], i, block_size(blocks, i) > 1});
  for (int i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) after.push_back({shape[i], 0, i, false});

  Dims new_strides = Dims::filled(shape.size(), 0);
  int new_dim[kMaxRank] = {};
  // The smallest groups of old and new dimensions with the same number of elements.
  for (size_t i = 0, j = 0; i < before.size();) {
    const size_t i0 = i, j0 = j;
    int64_t old_elements = before[i++].size, new_elements = after[j++].size;
    while (old_elements != new_elements) {
      if (old_elements < new_elements)
        old_elements *= before[i++].size;
      else
        new_elements *= after[j++].size;
    }
    std::vector<Axis> from(before.begin() + long(i0), before.begin() + long(i));
    std::vector<Axis> to(after.begin() + long(j0), after.begin() + long(j));
    const bool blocked = std::any_of(from.begin(), from.end(), [](const Axis& axis) { return axis.blocked; });
    if (blocked) {
      if (from.size() != 1 || to.size() != 1) return std::nullopt;
      new_dim[from[0].dim] = to[0].dim;
      to[0].stride = from[0].stride;
    } else if (!regroup(from, to)) {
      return std::nullopt;
    }
    for (const Axis& axis : to) new_strides[axis.dim] = axis.stride;
  }
  Blocks new_blocks;
  for (const auto& block : blocks) new_blocks.push_back({int8_t(new_dim[block.dim]), block.size});
  return describe(x.dtype, shape, new_strides, new_blocks, x.offset);
}

}  // namespace

TensorDesc view_permuted(const TensorDesc& x, const Dims& permutation) {
  Dims shape, strides;
  for (int64_t dim : permutation) {
    shape.push_back(x.shape[int(dim)]);
    strides.push_back(x.strides[int(dim)]);
  }
  return describe(x.dtype, shape, strides, blocks_of(x.layout.permuted(permutation)), x.offset);
}

std::optional<TensorDesc> view_reshaped(const TensorDesc& x, const Dims& shape) {
  if (shape == x.shape) return x;
  if (x.elements() == 0) return TensorDesc::dense(x.dtype, shape);
  std::optional<TensorDesc> without;
  if (const auto strides = strides_without_blocks(x)) {
    without = reshape(x, *strides, {}, shape);
    if (without && without->layout.is_plain()) {
      TensorDesc plain = TensorDesc::dense(x.dtype, shape);
      plain.offset = x.offset;
      if (same_memory(*without, plain)) return without;
    }
  }
  // Dimensions of size one lose their blocks; the others keep theirs, at unchanged distances.
  const Blocks all = blocks_of(x.layout);
  Blocks kept;
  for (const auto& block : all)
    if (x.shape[block.dim] > 1) kept.push_back(block);
  bool unchanged = !kept.empty();
  for (size_t i = 0, k = 0; i < all.size(); ++i)
    if (x.shape[all[i].dim] > 1) unchanged &= inner_stride(all, i) == inner_stride(kept, k++);
  if (unchanged)
    if (auto with = reshape(x, x.strides, kept, shape)) return with;
  return without;
}

std::optional<TensorDesc> view_sliced(const TensorDesc& x, const Dims& starts, const Dims& counts, const Dims& steps) {
  if (counts.product() == 0) return TensorDesc::dense(x.dtype, counts);
  Blocks blocks = blocks_of(x.layout);
  Dims strides = x.strides;
  const auto whole_blocks = [&](int dim) {
    const int64_t block = block_size(blocks, dim), end = starts[dim] + counts[dim];
    return block == 1 || (steps[dim] == 1 && starts[dim] % block == 0 && (end % block == 0 || end == x.shape[dim]));
  };
  bool cut = true;
  for (int i = 0; i < x.rank(); ++i) cut &= whole_blocks(i);
  if (!cut) {
    const auto even = strides_without_blocks(x);
    if (!even) return std::nullopt;
    blocks.clear();
    strides = *even;
  }
  int64_t offset = x.offset;
  for (int i = 0; i < x.rank(); ++i) {
    offset += starts[i] / block_size(blocks, i) * strides[i];
    if (block_size(blocks, i) == 1) strides[i] *= steps[i];
  }
  return describe(x.dtype, counts, strides, blocks, offset);
}

}  // namespace pl
