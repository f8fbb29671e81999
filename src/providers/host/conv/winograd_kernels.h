// The inner loops of winograd.h for one instruction set.  Included by winograd_<isa>.cpp, which chooses the
// instructions (a pragma, so this file includes nothing; with a width of 16, <immintrin.h> comes before) and defines
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

// Of `lanes` channels those that fall into part `part` of a block.
PL_WINOGRAD_INLINE int part_lanes(int lanes, int part) {
  const int left = lanes - part * kWidth;
  return left < 0 ? 0 : left < kWidth ? left : kWidth;
}
// `value`, with zeros from lane `count` on.
PL_WINOGRAD_INLINE Vector first_lanes(Vector value, int count) {
  Integers lane;
  for (int i = 0; i < kWidth; ++i) lane[i] = i;
  return reinterpret_cast<Vector>(reinterpret_cast<Integers>(value) & (lane < count));
}
// Part `part` of a block of which only `lanes` channels exist in memory; zeros for the others.
PL_WINOGRAD_INLINE Vector load_lanes(const float* from, int lanes, int part) {
  const int count = part_lanes(lanes, part);
  if (count == kWidth) return load(from + part * kWidth);
#if PL_WINOGRAD_WIDTH == 16
  return _mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), from);
#else
  Vector value{};
  for (int i = 0; i < kWidth; ++i)
    if (i < count) value[i] = from[part * kWidth + i];
  return value;
#endif
}
PL_WINOGRAD_INLINE void store_lanes(float* to, Vector value, int lanes, int part) {
  const int count = part_lanes(lanes, part);
  if (count == kWidth) return store(to + part * kWidth, value);
#if PL_WINOGRAD_WIDTH == 16
  _mm512_mask_storeu_ps(to, __mmask16((1u << count) - 1), value);
#else
  for (int i = 0; i < kWidth; ++i)
    if (i < count) to[part * kWidth + i] = value[i];
#endif
}

// The transforms of one dimension.  The points are 0, a and -a, b and -b, and infinity.
constexpr float a = 0.625f, b = 1.5f, a2 = a * a, b2 = b * b;

// B^T: a row holds the coefficients of the product of (t - q) over the points q but its own.
PL_WINOGRAD_INLINE void to_points(const Vector (&d)[kWindow], Vector (&v)[kWindow]) {
  const Vector even_a = d[4] - b2 * d[2], odd_a = d[3] - b2 * d[1];
  const Vector even_b = d[4] - a2 * d[2], odd_b = d[3] - a2 * d[1];
  v[0] = (a2 * b2) * d[0] + (d[4] - (a2 + b2) * d[2]);
  v[1] = even_a + a * odd_a;
  v[2] = even_a - a * odd_a;
  v[3] = even_b + b * odd_b;
  v[4] = even_b - b * odd_b;
  v[5] = (a2 * b2) * d[1] + (d[5] - (a2 + b2) * d[3]);
}

// A^T: a column is (1, p, p^2, p^3), for infinity (0, 0, 0, 1).
PL_WINOGRAD_INLINE void from_points(const Vector (&p)[kWindow], Vector (&y)[kTile]) {
  const Vector sum_a = p[1] + p[2], difference_a = p[1] - p[2];
  const Vector sum_b = p[3] + p[4], difference_b = p[3] - p[4];
  y[0] = p[0] + sum_a + sum_b;
  y[1] = a * difference_a + b * difference_b;
  y[2] = a2 * sum_a + b2 * sum_b;
  y[3] = (b * b2) * difference_b + ((a * a2) * difference_a + p[5]);
}

// G: a row is (1, p, p^2) divided by the product of (p - q) over the other points q, for infinity (0, 0, 1).
PL_WINOGRAD_INLINE void to_points(const Vector (&g)[kFilter], Vector (&u)[kWindow]) {
  constexpr float scale_a = 1 / (2 * a2 * (a2 - b2)), scale_b = 1 / (2 * b2 * (b2 - a2));
  const Vector even_a = scale_a * g[0] + (scale_a * a2) * g[2], even_b = scale_b * g[0] + (scale_b * b2) * g[2];
  u[0] = (1 / (a2 * b2)) * g[0];
  u[1] = even_a + (scale_a * a) * g[1];
  u[2] = even_a - (scale_a * a) * g[1];
  u[3] = even_b + (scale_b * b) * g[1];
  u[4] = even_b - (scale_b * b) * g[1];
  u[5] = g[2];
}

// Of the gradient by the weights the same matrices, transposed.

// A: a row is (1, p, p^2, p^3), for infinity (0, 0, 0, 1).
PL_WINOGRAD_INLINE void to_points(const Vector (&y)[kTile], Vector (&p)[kWindow]) {
  const Vector even_a = y[0] + a2 * y[2], odd_a = a * y[1] + (a * a2) * y[3];
  const Vector even_b = y[0] + b2 * y[2], odd_b = b * y[1] + (b * b2) * y[3];
  p[0] = y[0];
  p[1] = even_a + odd_a;
  p[2] = even_a - odd_a;
  p[3] = even_b + odd_b;
  p[4] = even_b - odd_b;
  p[5] = y[3];
}

// G^T.
PL_WINOGRAD_INLINE void from_points(const Vector (&u)[kWindow], Vector (&g)[kFilter]) {
  constexpr float scale_a = 1 / (2 * a2 * (a2 - b2)), scale_b = 1 / (2 * b2 * (b2 - a2));
  const Vector sum_a = u[1] + u[2], sum_b = u[3] + u[4];
  g[0] = (1 / (a2 * b2)) * u[0] + (scale_a * sum_a + scale_b * sum_b);
  g[1] = (scale_a * a) * (u[1] - u[2]) + (scale_b * b) * (u[3] - u[4]);
  g[2] = (scale_a * a2) * sum_a + ((scale_b * b2) * sum_b + u[5]);
}

// The same along both dimensions of one part of one block, where at(i, j) gives an element: the point (i, j) goes to
// v[(i * kWindow + j) * v_point].
template <int Size, class At>
PL_WINOGRAD_INLINE void part_to_points(const At& at, float* v, int64_t v_point) {
  Vector between[kWindow][Size];
#pragma GCC unroll 8
  for (int j = 0; j < Size; ++j) {
    Vector column[Size], t[kWindow];
#pragma GCC unroll 8
    for (int i = 0; i < Size; ++i) column[i] = at(i, j);
    to_points(column, t);
#pragma GCC unroll 8
    for (int i = 0; i < kWindow; ++i) between[i][j] = t[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kWindow; ++i) {
    Vector t[kWindow];
    to_points(between[i], t);
#pragma GCC unroll 8
    for (int j = 0; j < kWindow; ++j) store(v + j * v_point, t[j]);
    v += kWindow * v_point;
  }
}

// And back, of one part.
template <int Size>
PL_WINOGRAD_INLINE void part_from_points(const float* p, int64_t point, Vector (&y)[Size][Size]) {
  Vector between[Size][kWindow];
#pragma GCC unroll 8
  for (int j = 0; j < kWindow; ++j) {
    Vector column[kWindow], t[Size];
#pragma GCC unroll 8
    for (int i = 0; i < kWindow; ++i) column[i] = load(p + (i * kWindow + j) * point);
    from_points(column, t);
#pragma GCC unroll 8
    for (int i = 0; i < Size; ++i) between[i][j] = t[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < Size; ++i) from_points(between[i], y[i]);
}

// Where a window lies along one axis of an image: [begin, end) of its places are inside.  Outside, an address inside
// takes the place, and a mask makes zero of what was read there.
struct Span {
  int begin, end;
  int64_t offset[kWindow];
  int32_t mask[kWindow];
};
PL_WINOGRAD_INLINE bool whole(int first, int size) { return first >= 0 && first + kWindow <= size; }
PL_WINOGRAD_INLINE Span span(int first, int size, int64_t distance) {
  Span result;
  result.begin = first < 0 ? -first : 0;
  result.end = size - first < kWindow ? size - first : kWindow;
  if (result.begin > result.end) result.begin = result.end = 0;
  for (int i = 0; i < kWindow; ++i) {
    const int at = first + i < 0 ? 0 : first + i < size ? first + i : size - 1;
    result.offset[i] = at * distance;
    result.mask[i] = at == first + i ? -1 : 0;
  }
  return result;
}

// All of it lies inside the image.
template <int Size>
PL_WINOGRAD_INLINE void whole_to_points(const float* corner, int64_t row, int64_t column, float* v, int64_t v_point) {
  for (int part = 0; part < kParts; ++part, corner += kWidth, v += kWidth)
    part_to_points<Size>([=](int i, int j) PL_WINOGRAD_LAMBDA { return load(corner + i * row + j * column); }, v,
                         v_point);
}

PL_WINOGRAD_INLINE void input_masked(const float* image, const Span& rows, const Span& columns, float* v,
                                     int64_t v_point) {
  for (int part = 0; part < kParts; ++part, image += kWidth, v += kWidth)
    part_to_points<kWindow>(
        [&](int i, int j) PL_WINOGRAD_LAMBDA {
          const Integers bits = reinterpret_cast<Integers>(load(image + columns.offset[j] + rows.offset[i]));
          return reinterpret_cast<Vector>(bits & (rows.mask[i] & columns.mask[j]));
        },
        v, v_point);
}

// A block with fewer than 16 channels in memory: by way of a copy of the window.
__attribute__((noinline)) void input_tail(const float* image, const Span& rows, const Span& columns, int lanes,
                                          float* v, int64_t v_point) {
  float window[kWindow * kWindow * kLanes] = {};
  for (int i = rows.begin; i < rows.end; ++i)
    for (int j = columns.begin; j < columns.end; ++j)
      for (int part = 0; part < kParts; ++part)
        store(window + (i * kWindow + j) * kLanes + part * kWidth,
              load_lanes(image + rows.offset[i] + columns.offset[j], lanes, part));
  whole_to_points<kWindow>(window, kWindow * kLanes, kLanes, v, v_point);
}

void input(const WinogradSource& given, int y0, int x0, int tiles, float* v, int64_t v_point, int64_t v_block) {
  const WinogradSource source = given;  // a copy: what is stored might otherwise be part of `given`
  const bool whole_rows = whole(y0, source.h);
  const Span rows = span(y0, source.h, source.row);
  const auto one = [&](int tile, int block) PL_WINOGRAD_LAMBDA {
    const int x = x0 + tile * kTile;
    const float* image = source.x + block * source.block;
    float* to = v + tile * kLanes + block * v_block;
    if (block + 1 == source.blocks && source.last_lanes < kLanes)
      input_tail(image, rows, span(x, source.w, source.column), source.last_lanes, to, v_point);
    else if (whole_rows && whole(x, source.w)) {
      const float* corner = image + y0 * source.row + x * source.column;
      const int64_t row = source.row, column = source.column;
      // What the next window has beyond this one: a third to a half of the time on images that exceed the caches
      // (bench/internals/winograd.cpp, 1 64 224 224 64).
#pragma GCC unroll 8
      for (int i = 0; i < kWindow; ++i)
#pragma GCC unroll 8
        for (int j = kWindow - kTile; j < kWindow; ++j)
          __builtin_prefetch(corner + i * row + (j + kTile) * column, 0, 3);
      whole_to_points<kWindow>(corner, row, column, to, v_point);
    } else
      input_masked(image, rows, span(x, source.w, source.column), to, v_point);
  };
  for (int tile = 0; tile < tiles; ++tile)
    for (int block = 0; block < source.blocks; ++block) one(tile, block);
}

// G g G^T for `channels` input channels of a panel; lines of g that lie `ahead` floats further are fetched.
PL_WINOGRAD_INLINE void filter_channels(const float* g, float* u, int64_t u_point, int channels, int lanes, int ahead) {
  for (int channel = 0; channel < channels; ++channel, g += kFilter * kFilter * lanes, u += lanes) {
    for (int lane = 0; lane < lanes; lane += kWidth) {
      part_to_points<kFilter>(
          [=](int i, int j) PL_WINOGRAD_LAMBDA {
            const float* from = g + (i * kFilter + j) * lanes + lane;
            if (ahead) __builtin_prefetch(from + ahead, 0, 3);
            return load(from);
          },
          u + lane, u_point);
    }
  }
}

void filter(const float* g, float* u, int64_t u_point, int channels, int panel) {
  filter_channels(g, u, u_point, channels, panel * kLanes, 0);
}

// Rows tiles, Blocks blocks of output channels: some input channels after the other, so that their transformed filters
// and the products stay in the first-level cache.
template <int Rows, int Blocks>
void few_rows(const float* v, int64_t v_point, int64_t v_block, const float* g, float* m, int64_t m_point, int blocks) {
  constexpr int vectors = Blocks * kParts, lanes = Blocks * kLanes;
  constexpr int channels = 8 / Blocks;  // at once: 18 KB of filters
  constexpr int filter_floats = kFilter * kFilter * lanes;
  alignas(64) float u[kPoints * channels * lanes];
  for (int point = 0; point < kPoints; ++point)
    for (int i = 0; i < Rows * vectors; ++i) store(m + point * m_point + i * kWidth, Vector{});
  for (int block = 0; block < blocks; ++block, v += v_block) {
    for (int first = 0; first < kLanes; first += channels, g += channels * filter_floats) {
      filter_channels(g, u, channels * lanes, channels, lanes, 2 * channels * filter_floats);
      const float *from = v + first, *weights = u;
      float* to = m;
      for (int point = 0; point < kPoints; ++point, from += v_point, to += m_point) {
        Vector sums[Rows][vectors];
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
          for (int j = 0; j < vectors; ++j) sums[r][j] = load(to + (r * vectors + j) * kWidth);
#pragma GCC unroll 8
        for (int k = 0; k < channels; ++k, weights += lanes) {
#pragma GCC unroll 8
          for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
            for (int j = 0; j < vectors; ++j) sums[r][j] += from[r * kLanes + k] * load(weights + j * kWidth);
        }
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
          for (int j = 0; j < vectors; ++j) store(to + (r * vectors + j) * kWidth, sums[r][j]);
      }
    }
  }
}

template <int Blocks>
void few_panel(const float* v, int64_t v_point, int64_t v_block, const float* g, float* m, int64_t m_point, int tiles,
               int blocks) {
  switch (tiles) {
    case 1: return few_rows<1, Blocks>(v, v_point, v_block, g, m, m_point, blocks);
    case 2: return few_rows<2, Blocks>(v, v_point, v_block, g, m, m_point, blocks);
    case 3: return few_rows<3, Blocks>(v, v_point, v_block, g, m, m_point, blocks);
    case 4: return few_rows<4, Blocks>(v, v_point, v_block, g, m, m_point, blocks);
  }
}

void few(const float* v, int64_t v_point, int64_t v_block, const float* g, float* m, int64_t m_point, int tiles,
         int blocks, [[maybe_unused]] int panel) {
#if PL_WINOGRAD_PANEL >= 2
  if (panel == 2) return few_panel<2>(v, v_point, v_block, g, m, m_point, tiles, blocks);
#endif
  few_panel<1>(v, v_point, v_block, g, m, m_point, tiles, blocks);
}

// Rows tiles times Vectors vectors of output channels.  Meanwhile what lies at `next` is brought into the
// second-level cache: for each channel one line for each 16 lanes, then `stride` floats further.
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
void multiply_panel(const float* v, int64_t v_block, const float* u, float* m, int tiles, int blocks, bool accumulate,
                    const float* next, int stride) {
  constexpr int vectors = Blocks * kParts;
  using Table = MakeRowsTable<vectors, PL_WINOGRAD_ROWS(vectors)>;
  // As even as possible: a last call with few tiles would not keep the multipliers busy.
  for (int calls = (tiles + Table::most - 1) / Table::most; calls > 0; --calls) {
    const int rows = (tiles + calls - 1) / calls;
    Table::table[rows - 1](v, v_block, u, m, blocks, accumulate, next, stride);
    stride = 0;  // the first call has fetched all
    v += rows * kLanes;
    m += rows * vectors * kWidth;
    tiles -= rows;
  }
}

void multiply(const float* v, int64_t v_block, const float* u, float* m, int tiles, int blocks, int panel,
              bool accumulate, const float* next, int stride) {
  switch (panel) {
    case 1: return multiply_panel<1>(v, v_block, u, m, tiles, blocks, accumulate, next, stride);
#if PL_WINOGRAD_PANEL == 4
    case 2: return multiply_panel<2>(v, v_block, u, m, tiles, blocks, accumulate, next, stride);
    case 3: return multiply_panel<3>(v, v_block, u, m, tiles, blocks, accumulate, next, stride);
    case 4: return multiply_panel<4>(v, v_block, u, m, tiles, blocks, accumulate, next, stride);
#endif
  }
}

// Blocks that are incomplete, and activations that are functions: by way of a copy of the tile.
__attribute__((noinline)) void output_block(const WinogradTarget& target, int64_t offset, int block, int rows,
                                            int columns, const float* p, int64_t point) {
  float tile[kTile * kTile * kLanes], bias[kLanes] = {};
  const int lanes = block + 1 < target.blocks ? kLanes : target.last_lanes;
  for (int lane = 0; lane < lanes; ++lane) bias[lane] = target.bias[block * kLanes + lane];
  for (int part = 0; part < kParts; ++part) {
    Vector y[kTile][kTile];
    part_from_points(p + part * kWidth, point, y);
    const Vector shift = load(bias + part * kWidth);
#pragma GCC unroll 4
    for (int i = 0; i < kTile; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kTile; ++j) {
        Vector value = y[i][j] + shift;
        if (target.relu && !target.residual) value = value < 0.0f ? Vector{} : value;
        store(tile + (i * kTile + j) * kLanes + part * kWidth, value);
      }
  }
  if (target.residual) {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) {
        float* values = tile + (i * kTile + j) * kLanes;
        const float* added = target.residual + offset + i * target.row + j * target.column;
        for (int part = 0; part < kParts; ++part) {
          Vector value = load(values + part * kWidth) + load_lanes(added, lanes, part);
          if (target.relu) value = value < 0.0f ? Vector{} : value;
          store(values + part * kWidth, value);
        }
      }
  }
  // Places beside the image hold sums like the others, as does what follows the last channel: zeros.
  if (target.activation) target.activation(tile, tile, kTile * kTile * kLanes, target.alpha, target.beta);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      const float* values = tile + (i * kTile + j) * kLanes;
      float* to = target.y + offset + i * target.row + j * target.column;
      for (int part = 0; part < kParts; ++part) {
        const Vector value = load(values + part * kWidth);
        if (target.pad)
          store(to + part * kWidth,
                part_lanes(lanes, part) < kWidth ? first_lanes(value, part_lanes(lanes, part)) : value);
        else
          store_lanes(to, value, lanes, part);
      }
    }
}

// Blocks [first, last) that are complete, finished in registers.
template <bool relu, bool with_residual>
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
      for (int i = 0; i < kTile; ++i)
#pragma GCC unroll 4
        for (int j = kTile; j < 2 * kTile; ++j) {
          __builtin_prefetch(y + i * row + j * column, 1, 3);
          if (with_residual) __builtin_prefetch(residual + i * row + j * column, 0, 3);
        }
      Vector values[kTile][kTile];
      part_from_points(p + part * kWidth, point, values);
      const Vector shift = load(bias + part * kWidth);
      float* line = y + part * kWidth;
      const float* added = with_residual ? residual + part * kWidth : nullptr;
#pragma GCC unroll 4
      for (int i = 0; i < kTile; ++i) {
        if (i >= rows) break;
#pragma GCC unroll 4
        for (int j = 0; j < kTile; ++j) {
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

void output(const WinogradTarget& target, int y0, int x0, const float* p, int64_t point) {
  const int rows = target.h - y0 < kTile ? target.h - y0 : kTile,
            columns = target.w - x0 < kTile ? target.w - x0 : kTile;
  const int64_t offset = y0 * target.row + x0 * target.column;
  const int complete = target.activation ? 0 : target.last_lanes < kLanes ? target.blocks - 1 : target.blocks;
  if (target.relu && target.residual)
    output_blocks<true, true>(target, offset, 0, complete, rows, columns, p, point);
  else if (target.relu)
    output_blocks<true, false>(target, offset, 0, complete, rows, columns, p, point);
  else if (target.residual)
    output_blocks<false, true>(target, offset, 0, complete, rows, columns, p, point);
  else
    output_blocks<false, false>(target, offset, 0, complete, rows, columns, p, point);
  for (int block = complete; block < target.blocks; ++block)
    output_block(target, offset + block * target.block, block, rows, columns, p + block * kLanes, point);
}

// ---- the gradient by the weights ----

// Tiles that reach beyond the image, and blocks with fewer than 16 channels in memory: by way of a copy.
__attribute__((noinline)) void gradient_tail(const float* corner, int64_t row, int64_t column, int rows, int columns,
                                             int lanes, float* v, int64_t v_point) {
  float tile[kTile * kTile * kLanes] = {};
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      for (int part = 0; part < kParts; ++part)
        store(tile + (i * kTile + j) * kLanes + part * kWidth, load_lanes(corner + i * row + j * column, lanes, part));
  whole_to_points<kTile>(tile, kTile * kLanes, kLanes, v, v_point);
}

void gradient(const WinogradSource& given, int y0, int x0, int tiles, float* v, int64_t v_point, int64_t v_block) {
  const WinogradSource source = given;  // a copy: what is stored might otherwise be part of `given`
  const int rows = source.h - y0 < kTile ? source.h - y0 : kTile;
  for (int tile = 0; tile < tiles; ++tile) {
    const int x = x0 + tile * kTile;
    const int columns = source.w - x < kTile ? source.w - x : kTile;
    for (int block = 0; block < source.blocks; ++block) {
      const float* corner = source.x + block * source.block + y0 * source.row + x * source.column;
      float* to = v + tile * kLanes + block * v_block;
      const int lanes = block + 1 < source.blocks ? kLanes : source.last_lanes;
      if (rows == kTile && columns == kTile && lanes == kLanes)
        whole_to_points<kTile>(corner, source.row, source.column, to, v_point);
      else
        gradient_tail(corner, source.row, source.column, rows, columns, lanes, to, v_point);
    }
  }
}

// Rows channels of x times Vectors vectors of the gradient's.
template <int Rows, int Vectors>
void gather_rows(const float* v, const float* g, int64_t g_block, float* sums, int tiles, bool accumulate) {
  Vector held[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) held[r][j] = accumulate ? load(sums + (r * Vectors + j) * kWidth) : Vector{};
  for (int tile = 0; tile < tiles; ++tile, v += kLanes, g += kLanes) {
    Vector gradients[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) gradients[j] = load(g + j / kParts * g_block + j % kParts * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) held[r][j] += v[r] * gradients[j];
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) store(sums + (r * Vectors + j) * kWidth, held[r][j]);
}

template <int Blocks>
void gather_panel(const float* v, const float* g, int64_t g_block, float* sums, int tiles, bool accumulate) {
  constexpr int vectors = Blocks * kParts, most = PL_WINOGRAD_ROWS(vectors);
  constexpr int calls = (kLanes + most - 1) / most, rows = (kLanes + calls - 1) / calls;
  constexpr int last = kLanes - (calls - 1) * rows;
  for (int call = 0; call + 1 < calls; ++call, v += rows, sums += rows * vectors * kWidth)
    gather_rows<rows, vectors>(v, g, g_block, sums, tiles, accumulate);
  gather_rows<last, vectors>(v, g, g_block, sums, tiles, accumulate);
}

void gather(const float* v, const float* g, int64_t g_block, float* sums, int tiles, int panel, bool accumulate) {
  switch (panel) {
    case 1: return gather_panel<1>(v, g, g_block, sums, tiles, accumulate);
#if PL_WINOGRAD_PANEL == 4
    case 2: return gather_panel<2>(v, g, g_block, sums, tiles, accumulate);
    case 3: return gather_panel<3>(v, g, g_block, sums, tiles, accumulate);
    case 4: return gather_panel<4>(v, g, g_block, sums, tiles, accumulate);
#endif
  }
}

// G^T sums G.
void weights(const float* sums, int64_t sums_point, float* weights, int channels, int lanes) {
  for (int channel = 0; channel < channels; ++channel, sums += lanes, weights += kFilter * kFilter * lanes)
    for (int lane = 0; lane < lanes; lane += kWidth) {
      Vector made[kFilter][kFilter];
      part_from_points(sums + lane, sums_point, made);
#pragma GCC unroll 4
      for (int i = 0; i < kFilter; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < kFilter; ++j) store(weights + (i * kFilter + j) * lanes + lane, made[i][j]);
    }
}

constexpr WinogradKernels kKernels = {PL_WINOGRAD_ISA, PL_WINOGRAD_PANEL, input,  filter, multiply, few,
                                      output,          gradient,          gather, weights};

#undef PL_WINOGRAD_INLINE
#undef PL_WINOGRAD_LAMBDA

}  // namespace
}  // namespace pl::host
