#include "providers/host/matmul/packed_product.h"

#include <algorithm>

#include "providers/host/common/simd.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

// A block of the result, its rows of a and its columns of b take 1.4 MB: most second-level caches of servers hold them.
constexpr int64_t kRows = 384, kColumns = 768, kDepth = 192;
constexpr int64_t kLeastRows = 48, kLeastColumns = 96;  // where there are many threads
constexpr int64_t kWidest = 16;                         // floats of a panel

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
                             Strided a_steps, Strided b_steps, int64_t products, int64_t threads, DType of)
    : product(chosen), rows(row_count), columns(column_count), depth(depth_count), a(a_steps), b(b_steps), dtype(of) {
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

int64_t PackedProduct::most_floats(const BlockProduct& product, int64_t rows, int64_t columns, Strided a) {
  const int64_t most_rows = std::min(kRows, round_up(rows, product.rows));
  const int64_t most_columns = std::min(kColumns, round_up(columns, 3 * product.width));
  const int64_t of_a = a.column_step != 1 ? line_step(most_rows) * kDepth : line_step(kDepth) * most_rows;
  return round_up(most_rows * most_columns, 16) + of_a + round_up(kDepth * most_columns, 16);
}

PackedProduct::Block PackedProduct::block(int64_t number) const {
  Block block;
  block.row = number % row_blocks * most_rows();
  block.rows = std::min(most_rows(), rows - block.row);
  block.column = number / row_blocks * most_columns();
  block.columns = std::min(most_columns(), columns - block.column);
  return block;
}

void PackedProduct::pack_a(const void* data, const Block& block, int64_t first, int64_t count, float* to) const {
  const LoadRun<float> load = float_loader(dtype);
  const int64_t from = block.row * a.row_step + first * a.column_step;
  const int64_t lines = a_by_columns() ? count : block.rows, length = a_by_columns() ? block.rows : count;
  const int64_t step = a_by_columns() ? a.column_step : a.row_step;
  for (int64_t i = 0; i < lines; ++i) load(data, from + i * step, 1, length, to + i * a_step());
}

// Up to a panel of columns, each of which lies side by side; zeros behind the last one.
void PackedProduct::pack_b_by_columns(const void* data, int64_t from, int64_t panel, int64_t count, float* to) const {
  const int64_t width = product.width;
  const bool whole = panel == width;
  if (dtype == DType::f32) {
    static const TransposeRun transpose = transposer(sizeof(float));
    if (!whole) std::fill_n(to, width * count, 0.0f);
    transpose(static_cast<const float*>(data) + from, b.column_step, to, width, panel, count);
    return;
  }
  static const TransposeRun transpose = transposer(sizeof(uint16_t));
  uint16_t halves[kDepth * kWidest];
  if (!whole) std::fill_n(halves, width * count, uint16_t(0));
  transpose(static_cast<const uint16_t*>(data) + from, b.column_step, halves, width, panel, count);
  float_loader(dtype)(halves, 0, 1, width * count, to);
}

void PackedProduct::pack_b(const void* data, const Block& block, int64_t first, int64_t count, float* to) const {
  const int64_t width = product.width, panel_step = width * count, whole = block.columns / width;
  const int64_t from = first * b.row_step + block.column * b.column_step, rest = block.columns - whole * width;
  if (b.column_step != 1) {
    for (int64_t p = 0; p * width < block.columns; ++p)
      pack_b_by_columns(data, from + p * width * b.column_step, std::min(width, block.columns - p * width), count,
                        to + p * panel_step);
    return;
  }
  if (dtype == DType::f32)
    copy_rows_to_panels(int(width), static_cast<const float*>(data) + from, b.row_step, count, whole, to, panel_step);
  const LoadRun<float> load = float_loader(dtype);
  float row[kColumns];
  for (int64_t k = 0; k < count; ++k) {
    if (dtype != DType::f32) {
      load(data, from + k * b.row_step, 1, whole * width, row);
      copy_rows_to_panels(int(width), row, 0, 1, whole, to + k * width, panel_step);
    }
    if (rest == 0) continue;
    float* target = to + whole * panel_step + k * width;
    load(data, from + k * b.row_step + whole * width, 1, rest, target);
    std::fill(target + rest, target + width, 0.0f);
  }
}

const float* PackedProduct::run(const Block& block, const void* a_data, const void* b_data, float* space) const {
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
