#include "providers/host/matmul/block_product.h"

#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

// A vector of floats at any address.
template <int Width>
struct Vector {
  typedef float Type __attribute__((vector_size(4 * Width), aligned(4), may_alias));
};

// One tile.  Inlined into functions of each instruction set; the loops over rows and vectors are unrolled, so that
// `sum` is registers only.
template <int Width, int Rows, int Vectors, bool ByColumns>
PL_INLINE void tile(const Product& p, const float* a, const float* b, float* c) {
  using V = typename Vector<Width>::Type;
  V sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sum[r][v] = V{};
  for (int64_t k = 0; k < p.depth; ++k) {
    V row[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) row[v] = *reinterpret_cast<const V*>(b + v * p.b_panel_step);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const float value = ByColumns ? a[r] : a[r * p.a_step + k];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[r][v] += value * row[v];
    }
    b += p.b_step;
    if constexpr (ByColumns) a += p.a_step;
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      V* target = reinterpret_cast<V*>(c + r * p.c_step + v * Width);
      const V value = sum[r][v] * p.factor;
      *target = p.accumulate ? *target + value : value;
    }
}

template <int Width, int Rows, int Vectors, bool ByColumns>
PL_INLINE void column_of_tiles(const Product& p, const float* b, float* c) {
  const int64_t step = ByColumns ? 1 : p.a_step;
  int64_t i = 0;
  for (; i + Rows <= p.rows; i += Rows) tile<Width, Rows, Vectors, ByColumns>(p, p.a + i * step, b, c + i * p.c_step);
  if constexpr (Rows > 4)
    for (; i + 4 <= p.rows; i += 4) tile<Width, 4, Vectors, ByColumns>(p, p.a + i * step, b, c + i * p.c_step);
  if (i + 2 <= p.rows) {
    tile<Width, 2, Vectors, ByColumns>(p, p.a + i * step, b, c + i * p.c_step);
    i += 2;
  }
  if (i < p.rows) tile<Width, 1, Vectors, ByColumns>(p, p.a + i * step, b, c + i * p.c_step);
}

template <int Width, int Rows, bool ByColumns>
PL_INLINE void product_of(const Product& p) {
  for (int64_t panel = 0; panel < p.panels;) {
    const int64_t rest = p.panels - panel;
    // Three at a time; four that are left are two and two.
    const int64_t vectors = rest == 4 || rest == 2 ? 2 : rest == 1 ? 1 : 3;
    const float* b = p.b + panel * p.b_panel_step;
    float* c = p.c + panel * Width;
    if (vectors == 3)
      column_of_tiles<Width, Rows, 3, ByColumns>(p, b, c);
    else if (vectors == 2)
      column_of_tiles<Width, Rows, 2, ByColumns>(p, b, c);
    else
      column_of_tiles<Width, Rows, 1, ByColumns>(p, b, c);
    panel += vectors;
  }
}

template <int Width, int Rows>
PL_INLINE void product(const Product& p) {
  if (p.a_by_columns)
    product_of<Width, Rows, true>(p);
  else
    product_of<Width, Rows, false>(p);
}

#if defined(__aarch64__)
constexpr int kBaselineRows = 4;  // of 32 registers 12 sums; with 8 rows GCC 12 spills four of 24
#else
constexpr int kBaselineRows = 2;  // of 16 registers 6 sums
#endif
void run_baseline(const Product& p) { product<4, kBaselineRows>(p); }

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) void run_avx2(const Product& p) { product<8, 4>(p); }
__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"))) void run_avx512(const Product& p) {
  product<16, 8>(p);
}
#endif

std::vector<BlockProduct> runnable() {
  std::vector<BlockProduct> all;
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    all.push_back({16, 8, run_avx512});
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back({8, 4, run_avx2});
#endif
  all.push_back({4, kBaselineRows, run_baseline});
  return all;
}

}  // namespace

const std::vector<BlockProduct>& block_products() {
  static const std::vector<BlockProduct> all = runnable();
  return all;
}

}  // namespace pl::host
