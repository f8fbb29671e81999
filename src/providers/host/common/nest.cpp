#include "providers/host/common/nest.h"

#include <algorithm>
#include <cstring>

#include "core/status.h"

namespace pl::host {
namespace {

// An index i of a dimension lies at the sum over its digits of (i / unit % size) * stride; the last digit, between
// whole blocks, has no size.
struct Digit {
  int64_t unit, stride;
};

// Innermost first; the units divide each other.
std::vector<Digit> digits_of(const TensorDesc& desc, int dim) {
  std::vector<Digit> digits;
  int64_t unit = 1, volume = 1;
  for (int i = desc.layout.block_count() - 1; i >= 0; --i) {
    const Layout::Block& block = desc.layout.block(i);
    if (block.dim == dim) {
      digits.push_back({unit, volume});
      unit *= block.size;
    }
    volume *= block.size;
  }
  digits.push_back({unit, desc.strides[dim]});
  return digits;
}

int64_t offset_in(const std::vector<Digit>& digits, int64_t index) {
  int64_t offset = 0;
  for (size_t i = digits.size(); i-- > 0;) {
    offset += index / digits[i].unit * digits[i].stride;
    index %= digits[i].unit;
  }
  return offset;
}

// A part of a dimension in which every operand is a sum of strided loops.
struct Piece {
  int64_t start = 0;
  std::vector<Loop> loops;
};

// One operand's view of one dimension.
struct Axis {
  bool broadcast = false;
  int64_t begin = 0;
  std::vector<Digit> digits;
  int64_t block() const { return digits.back().unit; }
};

std::vector<Piece> pieces_of(int64_t size, const std::vector<Axis>& axes) {
  std::vector<int64_t> units = {1};
  bool aligned = true;
  for (const Axis& axis : axes) {
    if (axis.broadcast) continue;
    aligned &= axis.begin % axis.block() == 0;
    for (const Digit& digit : axis.digits) units.push_back(digit.unit);
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  for (size_t i = 1; i < units.size(); ++i) aligned &= units[i] % units[i - 1] == 0;

  std::vector<Piece> pieces;
  if (aligned) {
    // One loop for each unit; what is left after the whole units of one level goes to the next.
    const auto loop_of = [&](size_t level, int64_t count) {
      Loop loop;
      loop.size = count;
      for (size_t k = 0; k < axes.size(); ++k) {
        if (axes[k].broadcast) continue;
        for (const Digit& digit : axes[k].digits)
          if (digit.unit <= units[level]) loop.stride[k] = digit.stride * (units[level] / digit.unit);
      }
      return loop;
    };
    int64_t start = 0;
    for (size_t level = units.size(); level-- > 0 && start < size;) {
      const int64_t count = (size - start) / units[level];
      if (count == 0) continue;
      Piece piece;
      piece.start = start;
      piece.loops.push_back(loop_of(level, count));
      for (size_t lower = level; lower-- > 0;) piece.loops.push_back(loop_of(lower, units[lower + 1] / units[lower]));
      pieces.push_back(std::move(piece));
      start += count * units[level];
    }
    return pieces;
  }
  // Blocks that do not line up: cut wherever any operand comes to the end of its innermost block.
  for (int64_t start = 0; start < size;) {
    Piece piece;
    piece.start = start;
    Loop loop;
    loop.size = size - start;
    for (size_t k = 0; k < axes.size(); ++k) {
      const Axis& axis = axes[k];
      if (axis.broadcast) continue;
      loop.stride[k] = axis.digits[0].stride;
      if (axis.digits.size() > 1) {
        const int64_t inner = axis.digits[1].unit;
        loop.size = std::min(loop.size, inner - (axis.begin + start) % inner);
      }
    }
    start += loop.size;
    piece.loops.push_back(loop);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// Drops loops of one iteration and merges those that continue each other.
void simplify(Nest& nest, int order_by) {
  auto& loops = nest.loops;
  loops.erase(std::remove_if(loops.begin(), loops.end(), [](const Loop& loop) { return loop.size == 1; }), loops.end());
  std::stable_sort(loops.begin(), loops.end(), [&](const Loop& a, const Loop& b) {
    if (a.stride[order_by] != b.stride[order_by]) return a.stride[order_by] > b.stride[order_by];
    int64_t sum_a = 0, sum_b = 0;
    for (int k = 0; k < nest.operands; ++k) sum_a += a.stride[k], sum_b += b.stride[k];
    return sum_a > sum_b;
  });
  std::vector<Loop> merged;
  for (const Loop& loop : loops) {
    bool continues = !merged.empty();
    for (int k = 0; k < nest.operands && continues; ++k)
      continues = merged.back().stride[k] == loop.size * loop.stride[k];
    if (!continues) {
      merged.push_back(loop);
      continue;
    }
    const int64_t size = merged.back().size * loop.size;
    merged.back() = loop;
    merged.back().size = size;
  }
  if (merged.empty()) {
    Loop single;
    for (int k = 0; k < nest.operands; ++k) single.stride[k] = 1;
    merged.push_back(single);
  }
  loops = std::move(merged);
  require(loops.size() <= 32, Code::internal, "a walk over a tensor has ", loops.size(), " loops, expected at most 32");
}

}  // namespace

std::vector<Nest> make_nests(const Dims& shape, const std::vector<Operand>& operands, int order_by) {
  require(operands.size() <= size_t(kMaxOperands), Code::internal, "a walk over ", operands.size(), " tensors");
  std::vector<Nest> nests;
  for (int64_t size : shape)
    if (size == 0) return nests;

  Nest start;
  start.operands = int(operands.size());
  for (size_t k = 0; k < operands.size(); ++k) {
    require(operands[k].desc.rank() == shape.size(), Code::internal, "a walk of rank ", shape.size(),
            " over a tensor of rank ", operands[k].desc.rank());
    start.base[k] = operands[k].desc.offset;
  }
  nests.push_back(start);
  for (int dim = 0; dim < shape.size(); ++dim) {
    std::vector<Axis> axes(operands.size());
    for (size_t k = 0; k < operands.size(); ++k) {
      axes[k].digits = digits_of(operands[k].desc, dim);
      axes[k].begin = operands[k].begin.empty() ? 0 : operands[k].begin[dim];
      axes[k].broadcast = operands[k].desc.shape[dim] == 1 && shape[dim] != 1;
    }
    std::vector<Nest> grown;
    for (const Piece& piece : pieces_of(shape[dim], axes))
      for (Nest nest : nests) {
        for (size_t k = 0; k < operands.size(); ++k)
          nest.base[k] += offset_in(axes[k].digits, axes[k].begin + (axes[k].broadcast ? 0 : piece.start));
        nest.loops.insert(nest.loops.end(), piece.loops.begin(), piece.loops.end());
        grown.push_back(std::move(nest));
      }
    nests = std::move(grown);
  }
  for (Nest& nest : nests) simplify(nest, order_by);
  return nests;
}

std::vector<Nest> with_long_runs(std::vector<Nest> nests) {
  constexpr int64_t kShort = 16;
  for (Nest& nest : nests) {
    const auto shorter = [](const Loop& a, const Loop& b) { return a.size < b.size; };
    const auto longest = std::max_element(nest.loops.begin(), nest.loops.end(), shorter);
    if (nest.run().size < kShort) std::rotate(longest, longest + 1, nest.loops.end());
  }
  return nests;
}

TensorDesc insert_dims(const TensorDesc& desc, const std::vector<bool>& inserted) {
  TensorDesc result = desc;
  int8_t order[kMaxRank], place[kMaxRank];
  Layout::Block blocks[kMaxBlocks];
  const int rank = int(inserted.size());
  result.shape = result.strides = Dims::filled(rank, 1);
  int count = 0, old = 0;
  for (int i = 0; i < rank; ++i) {
    if (inserted[size_t(i)]) {
      order[count++] = int8_t(i);
      continue;
    }
    place[old] = int8_t(i);
    result.shape[i] = desc.shape[old];
    result.strides[i] = desc.strides[old++];
  }
  require(old == desc.rank(), Code::internal, "insert_dims: rank ", rank, " with ", count, " new dimensions from ",
          desc.rank());
  for (int i = 0; i < desc.rank(); ++i) order[count + i] = place[desc.layout.order(i)];
  for (int i = 0; i < desc.layout.block_count(); ++i)
    blocks[i] = {place[desc.layout.block(i).dim], desc.layout.block(i).size};
  result.layout = Layout::make(order, rank, blocks, desc.layout.block_count());
  return result;
}

TensorDesc with_rank(const TensorDesc& desc, int rank) {
  std::vector<bool> inserted(size_t(rank), false);
  std::fill(inserted.begin(), inserted.begin() + (rank - desc.rank()), true);
  return desc.rank() == rank ? desc : insert_dims(desc, inserted);
}

DimOffset::DimOffset(const TensorDesc& desc, int dim) : block_(desc.layout.block_of(dim)), stride_(desc.strides[dim]) {
  const std::vector<Digit> digits = digits_of(desc, dim);
  for (int64_t i = 0; i < block_; ++i) inside_.push_back(offset_in(digits, i));
}

PaddingZeroer::PaddingZeroer(const TensorDesc& desc) : element_bytes_(size_of(desc.dtype)) {
  if (!desc.has_padding()) return;
  // Padding along dimension d: valid indices before d, padding in d, anything after d.
  const Dims padded = desc.padded_shape();
  Operand operand;
  operand.desc = desc;
  operand.desc.shape = padded;
  for (int d = 0; d < desc.rank(); ++d) {
    if (padded[d] == desc.shape[d]) continue;
    Dims shape = padded;
    for (int i = 0; i < d; ++i) shape[i] = desc.shape[i];
    shape[d] = padded[d] - desc.shape[d];
    operand.begin = Dims::filled(desc.rank(), 0);
    operand.begin[d] = desc.shape[d];
    for (Nest& nest : make_nests(shape, {operand})) nests_.push_back(std::move(nest));
  }
}

void PaddingZeroer::write(void* base) const {
  for (const Nest& nest : nests_) {
    const size_t step = size_t(nest.run().stride[0]) * element_bytes_;
    for_each_run(nest, 0.2, [&](const int64_t* offsets, int64_t n) {
      char* first = static_cast<char*>(base) + offsets[0] * int64_t(element_bytes_);
      if (step == element_bytes_)
        std::memset(first, 0, size_t(n) * step);
      else
        for (int64_t i = 0; i < n; ++i) std::memset(first + size_t(i) * step, 0, element_bytes_);
    });
  }
}

}  // namespace pl::host
