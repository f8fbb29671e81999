// The inner loops of winograd.h for one instruction set.  Included by winograd_<isa>.cpp, which chooses the
// instructions (a pragma, so this file includes nothing) and defines
//     PL_WINOGRAD_ISA      "avx512"
//     PL_WINOGRAD_WIDTH    floats in a vector: 16, 8 or 4
//     PL_WINOGRAD_PANEL    blocks of 16 output channels in a panel
//     PL_WINOGRAD_ROWS(vectors)  tiles that are multiplied at once by so many vectors of output channels, so that
//                          sums, one row of weights and one value of the input fit into the registers
// Vectors are GCC's: arithmetic on them compiles to the instruction set in force.

namespace pl::host {
namespace {

#define PL_WINOGRAD_INLINE inline __attribute__((always_inline))

constexpr int kWidth = PL_WINOGRAD_WIDTH;
constexpr int kParts = kLanes / kWidth;  // vectors in a block of 16 channels
typedef float Vector __attribute__((vector_size(kWidth * 4)));
typedef float InMemory __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

PL_WINOGRAD_INLINE Vector load(const float* from) { return *reinterpret_cast<const InMemory*>(from); }
PL_WINOGRAD_INLINE void store(float* to, Vector value) { *reinterpret_cast<InMemory*>(to) = value; }

// The transforms of one dimension.  Points a = 5/8 and b = 3/2; a column of A^T is (1, p, p^2, p^3), a row of B^T the
// coefficients of the product of (t - q) over the other points q.
struct F4 {
  static constexpr int m = 4, n = 6;
  static constexpr float a = 0.625f, b = 1.5f, a2 = a * a, b2 = b * b;

  static PL_WINOGRAD_INLINE void input(const Vector (&d)[n], Vector (&v)[n]) {
    const Vector even_a = d[4] - b2 * d[2], odd_a = d[3] - b2 * d[1];
    const Vector even_b = d[4] - a2 * d[2], odd_b = d[3] - a2 * d[1];
    v[0] = (a2 * b2) * d[0] - (a2 + b2) * d[2] + d[4];
    v[1] = even_a + a * odd_a;
    v[2] = even_a - a * odd_a;
    v[3] = even_b + b * odd_b;
    v[4] = even_b - b * odd_b;
    v[5] = (a2 * b2) * d[1] - (a2 + b2) * d[3] + d[5];
  }
  static PL_WINOGRAD_INLINE void output(const Vector (&p)[n], Vector (&y)[m]) {
    const Vector sum_a = p[1] + p[2], difference_a = p[1] - p[2];
    const Vector sum_b = p[3] + p[4], difference_b = p[3] - p[4];
    y[0] = p[0] + sum_a + sum_b;
    y[1] = a * difference_a + b * difference_b;
    y[2] = a2 * sum_a + b2 * sum_b;
    y[3] = (a * a2) * difference_a + (b * b2) * difference_b + p[5];
  }
};

// Points 1 and -1.
struct F2 {
  static constexpr int m = 2, n = 4;

  static PL_WINOGRAD_INLINE void input(const Vector (&d)[n], Vector (&v)[n]) {
    v[0] = d[2] - d[0];
    v[1] = d[2] + d[1];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
  }
  static PL_WINOGRAD_INLINE void output(const Vector (&p)[n], Vector (&y)[m]) {
    y[0] = p[0] + p[1] + p[2];
    y[1] = p[1] - p[2] + p[3];
  }
};

// The rows or columns [begin, end) of a window of n that lie inside an image of this size.
struct Inside {
  int begin, end;
};
PL_WINOGRAD_INLINE Inside inside(int first, int n, int size) {
  Inside in = {first < 0 ? -first : 0, size - first < n ? size - first : n};
  if (in.begin > in.end) in.begin = in.end = 0;
  return in;
}

// The window of one part of one block; `whole`: all of it lies inside the image.
template <class F, bool whole>
PL_WINOGRAD_INLINE void input_part(const float* corner, int64_t row, int64_t column, Inside rows, Inside columns,
                                   float* v, int64_t v_point) {
  Vector between[F::n][F::n];  // B^T d
#pragma GCC unroll 8
  for (int j = 0; j < F::n; ++j) {
    Vector d[F::n], t[F::n];
    const bool column_inside = whole || (j >= columns.begin && j < columns.end);
#pragma GCC unroll 8
    for (int i = 0; i < F::n; ++i)
      d[i] =
          whole || (column_inside && i >= rows.begin && i < rows.end) ? load(corner + i * row + j * column) : Vector{};
    F::input(d, t);
#pragma GCC unroll 8
    for (int i = 0; i < F::n; ++i) between[i][j] = t[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < F::n; ++i) {
    Vector t[F::n];
    F::input(between[i], t);
#pragma GCC unroll 8
    for (int j = 0; j < F::n; ++j) store(v + (i * F::n + j) * v_point, t[j]);
  }
}

// A block with fewer than 16 channels in memory: by way of a copy of the window.
template <class F>
__attribute__((noinline)) void input_tail(const float* corner, int64_t row, int64_t column, Inside rows, Inside columns,
                                          int lanes, float* v, int64_t v_point) {
  float window[F::n * F::n * kLanes] = {};
  for (int i = rows.begin; i < rows.end; ++i)
    for (int j = columns.begin; j < columns.end; ++j)
      for (int lane = 0; lane < lanes; ++lane)
        window[(i * F::n + j) * kLanes + lane] = corner[i * row + j * column + lane];
  for (int part = 0; part < kParts; ++part)
    input_part<F, true>(window + part * kWidth, F::n * kLanes, kLanes, rows, columns, v + part * kWidth, v_point);
}

template <class F>
void input(const WinogradSource& source, int y0, int x0, float* v, int64_t v_point, int64_t v_block) {
  const Inside rows = inside(y0, F::n, source.h), columns = inside(x0, F::n, source.w);
  const bool whole = rows.begin == 0 && rows.end == F::n && columns.begin == 0 && columns.end == F::n;
  const float* corner = source.x + y0 * source.row + x0 * source.column;  // only what lies inside is read
  const int blocks = source.last_lanes < kLanes ? source.blocks - 1 : source.blocks;
  for (int block = 0; block < blocks; ++block) {
    for (int part = 0; part < kParts; ++part) {
      const float* from = corner + block * source.block + part * kWidth;
      float* to = v + block * v_block + part * kWidth;
      if (whole)
        input_part<F, true>(from, source.row, source.column, rows, columns, to, v_point);
      else
        input_part<F, false>(from, source.row, source.column, rows, columns, to, v_point);
    }
  }
  if (blocks < source.blocks)
    input_tail<F>(corner + blocks * source.block, source.row, source.column, rows, columns, source.last_lanes,
                  v + blocks * v_block, v_point);
}

// Rows tiles times Vectors vectors of output channels.  Meanwhile the weights at `next` are brought into the
// second-level cache, `stride` floats apart (0: none).
template <int Rows, int Vectors>
void multiply_rows(const float* v, int64_t v_block, const float* u, float* m, int blocks, bool accumulate,
                   const float* next, int stride) {
  Vector sums[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) sums[r][j] = accumulate ? load(m + (r * Vectors + j) * kWidth) : Vector{};
  for (int block = 0; block < blocks; ++block, v += v_block) {
#pragma GCC unroll 4
    for (int k = 0; k < kLanes; ++k, u += Vectors * kWidth, next += stride) {
      Vector weights[Vectors];
#pragma GCC unroll 4
      for (int j = 0; j < Vectors * kWidth; j += kLanes) __builtin_prefetch(next + j, 0, 2);
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) weights[j] = load(u + j * kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const float value = v[r * kLanes + k];
#pragma GCC unroll 8
        for (int j = 0; j < Vectors; ++j) sums[r][j] += value * weights[j];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) store(m + (r * Vectors + j) * kWidth, sums[r][j]);
}

using MultiplyRows = void (*)(const float*, int64_t, const float*, float*, int, bool, const float*, int);
// table[Rows - 1]
template <int Vectors, int... Rows>
struct RowsTable {
  static constexpr int most = PL_WINOGRAD_ROWS(Vectors);
  static constexpr MultiplyRows table[] = {multiply_rows<Rows, Vectors>...};
};
template <int Vectors, int Count, int... Rows>
struct MakeRowsTable : MakeRowsTable<Vectors, Count - 1, Count, Rows...> {};
template <int Vectors, int... Rows>
struct MakeRowsTable<Vectors, 0, Rows...> : RowsTable<Vectors, Rows...> {};

template <int Blocks>
void multiply_panel(const float* v, int64_t v_block, const float* u, float* m, int tiles, int blocks, bool accumulate) {
  constexpr int vectors = Blocks * kParts;
  using Table = MakeRowsTable<vectors, PL_WINOGRAD_ROWS(vectors)>;
  // The weights that follow in memory are the next to be multiplied: the first call fetches them, without waiting for
  // the processor's own prefetching, which stops at the ends of pages.
  const float* next = u + blocks * kLanes * vectors * kWidth;
  int stride = vectors * kWidth;
  // As even as possible: a last call with few tiles would not keep the multipliers busy.
  for (int calls = (tiles + Table::most - 1) / Table::most; calls > 0; --calls) {
    const int rows = (tiles + calls - 1) / calls;
    Table::table[rows - 1](v, v_block, u, m, blocks, accumulate, next, stride);
    stride = 0;
    v += rows * kLanes;
    m += rows * vectors * kWidth;
    tiles -= rows;
  }
}

void multiply(const float* v, int64_t v_block, const float* u, float* m, int tiles, int blocks, int panel,
              bool accumulate) {
  switch (panel) {
    case 1: return multiply_panel<1>(v, v_block, u, m, tiles, blocks, accumulate);
#if PL_WINOGRAD_PANEL == 4
    case 2: return multiply_panel<2>(v, v_block, u, m, tiles, blocks, accumulate);
    case 3: return multiply_panel<3>(v, v_block, u, m, tiles, blocks, accumulate);
    case 4: return multiply_panel<4>(v, v_block, u, m, tiles, blocks, accumulate);
#endif
  }
}

// The m * m outputs of one part: A^T p A.
template <class F>
PL_WINOGRAD_INLINE void output_part(const float* p, int64_t point, Vector (&y)[F::m][F::m]) {
  Vector between[F::m][F::n];
#pragma GCC unroll 8
  for (int j = 0; j < F::n; ++j) {
    Vector column[F::n], t[F::m];
#pragma GCC unroll 8
    for (int i = 0; i < F::n; ++i) column[i] = load(p + (i * F::n + j) * point);
    F::output(column, t);
#pragma GCC unroll 8
    for (int i = 0; i < F::m; ++i) between[i][j] = t[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < F::m; ++i) F::output(between[i], y[i]);
}

// Blocks that are incomplete, and activations that are functions: by way of a copy of the tile.
template <class F>
__attribute__((noinline)) void output_block(const WinogradTarget& target, int64_t offset, int block, int rows,
                                            int columns, const float* p, int64_t point) {
  float tile[F::m * F::m * kLanes];
  const int lanes = block + 1 < target.blocks ? kLanes : target.last_lanes;
  const int written = target.pad ? kLanes : lanes;
  for (int part = 0; part < kParts; ++part) {
    Vector y[F::m][F::m];
    output_part<F>(p + part * kWidth, point, y);
    for (int i = 0; i < F::m; ++i)
      for (int j = 0; j < F::m; ++j) store(tile + (i * F::m + j) * kLanes + part * kWidth, y[i][j]);
  }
  for (int i = 0; i < F::m; ++i)
    for (int j = 0; j < F::m; ++j) {
      float* values = tile + (i * F::m + j) * kLanes;
      const bool exists = i < rows && j < columns;
      const float* residual =
          target.residual && exists ? target.residual + offset + i * target.row + j * target.column : nullptr;
      for (int lane = 0; lane < kLanes; ++lane) {
        // What does not exist must not be slow or raise anything in the activation.
        float value = exists && lane < lanes ? values[lane] + target.bias[block * kLanes + lane] : 0.0f;
        if (residual && lane < lanes) value += residual[lane];
        values[lane] = target.relu && value < 0.0f ? 0.0f : value;
      }
    }
  if (target.activation) target.activation(tile, tile, F::m * F::m * kLanes, target.alpha, target.beta);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      for (int lane = 0; lane < written; ++lane)
        target.y[offset + i * target.row + j * target.column + lane] =
            lane < lanes ? tile[(i * F::m + j) * kLanes + lane] : 0.0f;
}

template <class F>
void output(const WinogradTarget& target, int y0, int x0, const float* p, int64_t point) {
  const int rows = target.h - y0 < F::m ? target.h - y0 : F::m, columns = target.w - x0 < F::m ? target.w - x0 : F::m;
  for (int block = 0; block < target.blocks; ++block, p += kLanes) {
    const int64_t offset = y0 * target.row + x0 * target.column + block * target.block;
    if (target.activation || (block + 1 == target.blocks && target.last_lanes < kLanes)) {
      output_block<F>(target, offset, block, rows, columns, p, point);
      continue;
    }
    for (int part = 0; part < kParts; ++part) {
      Vector y[F::m][F::m];
      output_part<F>(p + part * kWidth, point, y);
      const Vector bias = load(target.bias + block * kLanes + part * kWidth);
      const int64_t start = offset + part * kWidth;
#pragma GCC unroll 4
      for (int i = 0; i < F::m; ++i) {
        if (i >= rows) break;
#pragma GCC unroll 4
        for (int j = 0; j < F::m; ++j) {
          if (j >= columns) break;
          const int64_t place = start + i * target.row + j * target.column;
          Vector value = y[i][j] + bias;
          if (target.residual) value += load(target.residual + place);
          if (target.relu) value = value < 0.0f ? Vector{} : value;
          store(target.y + place, value);
        }
      }
    }
  }
}

constexpr WinogradKernels kKernels = {PL_WINOGRAD_ISA, PL_WINOGRAD_PANEL, input<F2>, input<F4>,
                                      multiply,        output<F2>,        output<F4>};

#undef PL_WINOGRAD_INLINE

}  // namespace
}  // namespace pl::host
