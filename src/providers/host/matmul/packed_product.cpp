#include "providers/host/matmul/packed_product.h"

#include <algorithm>
#include <cstring>

#include "providers/host/common/simd.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

// A block of the result, its rows of a and its columns of b take 1.4 MB: most second-level caches of servers hold them.
constexpr int64_t kRows = 384, kColumns = 768, kDepth = 192;
constexpr int64_t kLeastRows = 48, kLeastColumns = 96;  // where there are many threads

// Rows of a and, where it lies by columns, these begin in different sets of the first-level cache: an odd number of
// lines apart.
int64_t line_step(int64_t floats) { return ((floats + 15) / 16 | 1) * 16; }

// Runs of `vector` floats, one of each row, into panels.
template <int Width>
PL_INLINE void copy_panels(const float* from, int64_t row_step, int64_t rows, int64_t panels, float* to,
                           int64_t panel_step) {
  typedef float V __attribute__((vector_size(4 * Width), aligned(4), may_alias));
  for (int64_t k = 0; k < rows; ++k) {
    const float* row = from + k * row_step;
    float* target = to + k * Width;
    for (int64_t p = 0; p < panels; ++p)
      *reinterpret_cast<V*>(target + p * panel_step) = *reinterpret_cast<const V*>(row + p * Width);
  }
}

PL_VECTORISED void copy_rows_to_panels(int width, const float* from, int64_t row_step, int64_t rows, int64_t panels,
                                       float* to, int64_t panel_step) {
  if (width == 16)
    copy_panels<16>(from, row_step, rows, panels, to, panel_step);
  else if (width == 8)
    copy_panels<8>(from, row_step, rows, panels, to, panel_step);
  else
    copy_panels<4>(from, row_step, rows, panels, to, panel_step);
}

int64_t pieces(int64_t count, int64_t most) { return std::max<int64_t>(1, (count + most - 1) / most); }
int64_t piece(int64_t count, int64_t number, int64_t unit) {
  return round_up((count + number - 1) / std::max<int64_t>(number, 1), unit);
}

}  // namespace

PackedProduct::PackedProduct(const BlockProduct& chosen, int64_t row_count, int64_t column_count, int64_t depth_count,
                             Strided a_steps, Strided b_steps, int64_t products, int64_t threads)
    : product(chosen), rows(row_count), columns(column_count), depth(depth_count), a(a_steps), b(b_steps) {
  row_blocks = pieces(rows, kRows);
  column_blocks = pieces(columns, kColumns);
  // Four blocks for each thread, or as many for all.
  const auto uneven = [&] {
    const int64_t tasks = products * blocks();
    return tasks < 4 * threads && tasks % threads != 0;
  };
  while (uneven()) {
    const int64_t block_rows = rows / row_blocks, block_columns = columns / column_blocks;
    if (block_columns >= block_rows && block_columns >= 2 * kLeastColumns)
      ++column_blocks;
    else if (block_rows >= 2 * kLeastRows)
      ++row_blocks;
    else
      break;
  }
  // Rounding up may leave none for the last ones.
  row_blocks = pieces(rows, most_rows());
  column_blocks = pieces(columns, most_columns());
}

int64_t PackedProduct::most_rows() const { return piece(rows, row_blocks, product.rows); }
int64_t PackedProduct::most_columns() const { return piece(columns, column_blocks, 3 * product.width); }
int64_t PackedProduct::result_step() const { return most_columns(); }

int64_t PackedProduct::a_step() const { return line_step(a_by_columns() ? most_rows() : kDepth); }
int64_t PackedProduct::a_floats() const { return a_step() * (a_by_columns() ? kDepth : most_rows()); }

int64_t PackedProduct::floats() const {
  return round_up(most_rows() * most_columns(), 16) + a_floats() + round_up(kDepth * most_columns(), 16);
}

PackedProduct::Block PackedProduct::block(int64_t number) const {
  Block block;
  block.row = number % row_blocks * most_rows();
  block.rows = std::min(most_rows(), rows - block.row);
  block.column = number / row_blocks * most_columns();
  block.columns = std::min(most_columns(), columns - block.column);
  return block;
}

void PackedProduct::pack_a(const float* data, const Block& block, int64_t first, int64_t count, float* to) const {
  const float* from = data + block.row * a.row_step + first * a.column_step;
  const int64_t lines = a_by_columns() ? count : block.rows, length = a_by_columns() ? block.rows : count;
  const int64_t step = a_by_columns() ? a.column_step : a.row_step;
  for (int64_t i = 0; i < lines; ++i) std::memcpy(to + i * a_step(), from + i * step, size_t(length) * sizeof(float));
}

void PackedProduct::pack_b(const float* data, const Block& block, int64_t first, int64_t count, float* to) const {
  static const TransposeRun transpose = transposer(sizeof(float));
  const int64_t width = product.width, panel_step = width * count, whole = block.columns / width;
  const float* from = data + first * b.row_step + block.column * b.column_step;
  const int64_t rest = block.columns - whole * width;
  if (b.column_step == 1) {
    copy_rows_to_panels(int(width), from, b.row_step, count, whole, to, panel_step);
    for (int64_t k = 0; rest > 0 && k < count; ++k) {
      float* target = to + whole * panel_step + k * width;
      std::memcpy(target, from + k * b.row_step + whole * width, size_t(rest) * sizeof(float));
      std::fill(target + rest, target + width, 0.0f);
    }
    return;
  }
  for (int64_t p = 0; p < whole; ++p)
    transpose(from + p * width * b.column_step, b.column_step, to + p * panel_step, width, width, count);
  if (rest > 0) {
    std::fill_n(to + whole * panel_step, panel_step, 0.0f);
    transpose(from + whole * width * b.column_step, b.column_step, to + whole * panel_step, width, rest, count);
  }
}

const float* PackedProduct::run(const Block& block, const float* a_data, const float* b_data, float* space) const {
  float* of_a = space + round_up(most_rows() * most_columns(), 16);
  float* of_b = of_a + a_floats();
  if (depth == 0) std::fill_n(space, most_rows() * most_columns(), 0.0f);
  const int64_t number = pieces(depth, kDepth), each = piece(depth, number, 16);
  for (int64_t first = 0; first < depth; first += each) {
    const int64_t count = std::min(each, depth - first);
    pack_a(a_data, block, first, count, of_a);
    pack_b(b_data, block, first, count, of_b);
    Product p;
    p.rows = block.rows;
    p.panels = round_up(block.columns, product.width) / product.width;
    p.depth = count;
    p.a = of_a;
    p.a_step = a_step();
    p.a_by_columns = a_by_columns();
    p.b = of_b;
    p.b_step = product.width;
    p.b_panel_step = product.width * count;
    p.c = space;
    p.c_step = result_step();
    p.accumulate = first > 0;
    product.run(p);
  }
  return space;
}

}  // namespace pl::host
