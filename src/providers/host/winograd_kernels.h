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
#define PL_WINOGRAD_LAMBDA __attribute__((always_inline))

constexpr int kWidth = PL_WINOGRAD_WIDTH;
constexpr int kParts = kLanes / kWidth;  // vectors in a block of 16 channels
typedef float Vector __attribute__((vector_size(kWidth * 4)));
typedef int32_t Integers __attribute__((vector_size(kWidth * 4)));
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
    v[0] = (a2 * b2) * d[0] + (d[4] - (a2 + b2) * d[2]);
    v[1] = even_a + a * odd_a;
    v[2] = even_a - a * odd_a;
    v[3] = even_b + b * odd_b;
    v[4] = even_b - b * odd_b;
    v[5] = (a2 * b2) * d[1] + (d[5] - (a2 + b2) * d[3]);
  }
  static PL_WINOGRAD_INLINE void output(const Vector (&p)[n], Vector (&y)[m]) {
    const Vector sum_a = p[1] + p[2], difference_a = p[1] - p[2];
    const Vector sum_b = p[3] + p[4], difference_b = p[3] - p[4];
    y[0] = p[0] + sum_a + sum_b;
    y[1] = a * difference_a + b * difference_b;
    y[2] = a2 * sum_a + b2 * sum_b;
    y[3] = (b * b2) * difference_b + ((a * a2) * difference_a + p[5]);
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

// Where a window lies along one axis of an image: [begin, end) of its n places are inside.  Outside, an address inside
// takes the place, and a mask makes zero of what was read there.
template <int n>
struct Span {
  int begin, end;
  int64_t offset[n];
  int32_t mask[n];
};
PL_WINOGRAD_INLINE bool whole(int first, int n, int size) { return first >= 0 && first + n <= size; }
template <int n>
PL_WINOGRAD_INLINE Span<n> span(int first, int size, int64_t distance) {
  Span<n> result;
  result.begin = first < 0 ? -first : 0;
  result.end = size - first < n ? size - first : n;
  if (result.begin > result.end) result.begin = result.end = 0;
  for (int i = 0; i < n; ++i) {
    const int at = first + i < 0 ? 0 : first + i < size ? first + i : size - 1;
    result.offset[i] = at * distance;
    result.mask[i] = at == first + i ? -1 : 0;
  }
  return result;
}

// B^T d B of one part of one block, where at(i, j) gives an element of d.
template <class F, class At>
PL_WINOGRAD_INLINE void input_part(const At& at, float* v, int64_t v_point) {
  Vector between[F::n][F::n];  // B^T d
#pragma GCC unroll 8
  for (int j = 0; j < F::n; ++j) {
    Vector d[F::n], t[F::n];
#pragma GCC unroll 8
    for (int i = 0; i < F::n; ++i) d[i] = at(i, j);
    F::input(d, t);
#pragma GCC unroll 8
    for (int i = 0; i < F::n; ++i) between[i][j] = t[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < F::n; ++i) {
    Vector t[F::n];
    F::input(between[i], t);
#pragma GCC unroll 8
    for (int j = 0; j < F::n; ++j) store(v + j * v_point, t[j]);
    v += F::n * v_point;
  }
}

// All of the window lies inside the image.
template <class F>
PL_WINOGRAD_INLINE void input_whole(const float* corner, int64_t row, int64_t column, float* v, int64_t v_point) {
  for (int part = 0; part < kParts; ++part, corner += kWidth, v += kWidth)
    input_part<F>([=](int i, int j) PL_WINOGRAD_LAMBDA { return load(corner + i * row + j * column); }, v, v_point);
}

template <class F>
PL_WINOGRAD_INLINE void input_masked(const float* image, const Span<F::n>& rows, const Span<F::n>& columns, float* v,
                                     int64_t v_point) {
  for (int part = 0; part < kParts; ++part, image += kWidth, v += kWidth)
    input_part<F>(
        [&](int i, int j) PL_WINOGRAD_LAMBDA {
          const Integers bits = reinterpret_cast<Integers>(load(image + columns.offset[j] + rows.offset[i]));
          return reinterpret_cast<Vector>(bits & (rows.mask[i] & columns.mask[j]));
        },
        v, v_point);
}

// A block with fewer than 16 channels in memory: by way of a copy of the window.
template <class F>
__attribute__((noinline)) void input_tail(const float* image, const Span<F::n>& rows, const Span<F::n>& columns,
                                          int lanes, float* v, int64_t v_point) {
  float window[F::n * F::n * kLanes] = {};
  for (int i = rows.begin; i < rows.end; ++i)
    for (int j = columns.begin; j < columns.end; ++j)
      for (int lane = 0; lane < lanes; ++lane)
        window[(i * F::n + j) * kLanes + lane] = image[rows.offset[i] + columns.offset[j] + lane];
  input_whole<F>(window, F::n * kLanes, kLanes, v, v_point);
}

template <class F>
void input(const WinogradSource& given, int y0, int x0, int tiles, float* v, int64_t v_point, int64_t v_block) {
  const WinogradSource source = given;  // a copy: what is stored might otherwise be part of `given`
  const bool whole_rows = whole(y0, F::n, source.h);
  const Span<F::n> rows = span<F::n>(y0, source.h, source.row);
  const auto one = [&](int tile, int block) PL_WINOGRAD_LAMBDA {
    const int x = x0 + tile * F::m;
    const float* image = source.x + block * source.block;
    float* to = v + tile * kLanes + block * v_block;
    if (block + 1 == source.blocks && source.last_lanes < kLanes)
      input_tail<F>(image, rows, span<F::n>(x, source.w, source.column), source.last_lanes, to, v_point);
    else if (whole_rows && whole(x, F::n, source.w)) {
      const float* corner = image + y0 * source.row + x * source.column;
      const int64_t row = source.row, column = source.column;
      // What the next window has beyond this one: a third to a half of the time on images that exceed the caches
      // (bench/internals/winograd.cpp, 1 64 224 224 64).
#pragma GCC unroll 8
      for (int i = 0; i < F::n; ++i)
#pragma GCC unroll 8
        for (int j = F::n - F::m; j < F::n; ++j) __builtin_prefetch(corner + i * row + (j + F::m) * column, 0, 3);
      input_whole<F>(corner, row, column, to, v_point);
    } else
      input_masked<F>(image, rows, span<F::n>(x, source.w, source.column), to, v_point);
  };
  for (int tile = 0; tile < tiles; ++tile)
    for (int block = 0; block < source.blocks; ++block) one(tile, block);
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

// Blocks [first, last) that are complete, finished in registers.
template <class F, bool relu, bool with_residual>
PL_WINOGRAD_INLINE void output_blocks(const WinogradTarget& target, int64_t offset, int first, int last, int rows,
                                      int columns, const float* p, int64_t point) {
  // In variables of its own: what is stored might otherwise be part of `target`.
  const int64_t row = target.row, column = target.column, block_distance = target.block;
  const float* bias = target.bias + first * kLanes;
  float* y = target.y + offset + first * block_distance;
  const float* residual = with_residual ? target.residual + offset + first * block_distance : nullptr;
  for (int block = first; block < last; ++block, p += kLanes, bias += kLanes, y += block_distance) {
    for (int part = 0; part < kParts; ++part) {
      // The next tile's outputs are to be at hand when they are written: likewise half of the time on large images.
#pragma GCC unroll 4
      for (int i = 0; i < F::m; ++i)
#pragma GCC unroll 4
        for (int j = F::m; j < 2 * F::m; ++j) {
          __builtin_prefetch(y + i * row + j * column, 1, 3);
          if (with_residual) __builtin_prefetch(residual + i * row + j * column, 0, 3);
        }
      Vector values[F::m][F::m];
      output_part<F>(p + part * kWidth, point, values);
      const Vector shift = load(bias + part * kWidth);
      float* line = y + part * kWidth;
      const float* added = with_residual ? residual + part * kWidth : nullptr;
#pragma GCC unroll 4
      for (int i = 0; i < F::m; ++i) {
        if (i >= rows) break;
#pragma GCC unroll 4
        for (int j = 0; j < F::m; ++j) {
          if (j >= columns) break;
          Vector value = values[i][j] + shift;
          if (with_residual) value += load(added + j * column);
          if (relu) value = value < 0.0f ? Vector{} : value;
          store(line + j * column, value);
        }
        line += row;
        if (with_residual) added += row;
      }
    }
    if (with_residual) residual += block_distance;
  }
}

template <class F>
void output(const WinogradTarget& target, int y0, int x0, const float* p, int64_t point) {
  const int rows = target.h - y0 < F::m ? target.h - y0 : F::m, columns = target.w - x0 < F::m ? target.w - x0 : F::m;
  const int64_t offset = y0 * target.row + x0 * target.column;
  const int complete = target.activation ? 0 : target.last_lanes < kLanes ? target.blocks - 1 : target.blocks;
  if (target.relu && target.residual)
    output_blocks<F, true, true>(target, offset, 0, complete, rows, columns, p, point);
  else if (target.relu)
    output_blocks<F, true, false>(target, offset, 0, complete, rows, columns, p, point);
  else if (target.residual)
    output_blocks<F, false, true>(target, offset, 0, complete, rows, columns, p, point);
  else
    output_blocks<F, false, false>(target, offset, 0, complete, rows, columns, p, point);
  for (int block = complete; block < target.blocks; ++block)
    output_block<F>(target, offset + block * target.block, block, rows, columns, p + block * kLanes, point);
}

constexpr WinogradKernels kKernels = {PL_WINOGRAD_ISA, PL_WINOGRAD_PANEL, input<F2>, input<F4>,
                                      multiply,        output<F2>,        output<F4>};

#undef PL_WINOGRAD_INLINE
#undef PL_WINOGRAD_LAMBDA

}  // namespace
}  // namespace pl::host
