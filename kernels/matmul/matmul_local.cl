// Products of stacks of matrices with tiles in local memory and registers, for GPUs.  Any layouts.
//
//   dst[b, m, n] = activation(sum over k of a[b, m, k] * w[b, k, n] + bias[n] + res[b, m, n])
// b stands for six stacking dimensions b0 .. b5; where A or B has size 1 in one of them it is repeated.
//
// Tensors: A (b0 .. b5, m, k), B (b0 .. b5, k, n), DST and RES (b0 .. b5, m, n), BIAS (n); each at *_OFFSET of its own
// layout.  DST has no blocks.
//
// A work-group computes ROWS x COLUMNS elements (common/register_tile.clh); group ids: tile of columns, tile of rows, b.
// While a tile is multiplied the next one is on its way to registers.  The sum is kept in f32, in the order of k.
#include "common/epilogue.clh"
#include "common/register_tile.clh"

#ifndef A_DTYPE  // on its own: f32, plain
#define PLAIN_OFFSET8(t, a, b, c, d, e, f, m, n) \
    (PLAIN_OFFSET6(t, a, b, c, d, e, f) + (m)*PLAIN_STRIDE(t, 6) + (n)*PLAIN_STRIDE(t, 7))
#define A_DTYPE f32
#define A_OFFSET(b0, b1, b2, b3, b4, b5, m, k) PLAIN_OFFSET8(a, b0, b1, b2, b3, b4, b5, m, k)
#define A_DIM(i) PLAIN_DIM(a, i)
#define A_UNIT_DIM 7
#define B_DTYPE f32
#define B_OFFSET(b0, b1, b2, b3, b4, b5, k, n) PLAIN_OFFSET8(b, b0, b1, b2, b3, b4, b5, k, n)
#define B_DIM(i) PLAIN_DIM(b, i)
#define B_UNIT_DIM 7
#define DST_DTYPE f32
#define DST_OFFSET(b0, b1, b2, b3, b4, b5, m, n) PLAIN_OFFSET8(dst, b0, b1, b2, b3, b4, b5, m, n)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif

// Index i in stacking dimension `dim` of tensor T, for tensors that are repeated along it.
#define STACKED(T, dim, i) min((i), T##_DIM(dim) - 1)

// Element e of a tile: neighbouring work-items read neighbours in memory.
#if A_UNIT_DIM == 7
#define A_TILE_M(e) ((e) / TILE_K)
#define A_TILE_K(e) ((e) % TILE_K)
#else
#define A_TILE_M(e) ((e) % ROWS)
#define A_TILE_K(e) ((e) / ROWS)
#endif
#if B_UNIT_DIM == 6
#define B_TILE_N(e) ((e) / TILE_K)
#define B_TILE_K(e) ((e) % TILE_K)
#else
#define B_TILE_N(e) ((e) % COLUMNS)
#define B_TILE_K(e) ((e) / COLUMNS)
#endif
#define A_SHARE ((ROWS * TILE_K + GROUP_SIZE - 1) / GROUP_SIZE)  // elements a work-item brings
#define B_SHARE ((COLUMNS * TILE_K + GROUP_SIZE - 1) / GROUP_SIZE)

// The work-item's share of the tiles that begin at term k0, zero outside of the matrices.
#define FETCH(k0)                                                                                               \
    _Pragma("unroll") for (int j = 0; j < A_SHARE; ++j) {                                                       \
        const int e = item + j * GROUP_SIZE;                                                                    \
        const idx_t m = m0 + A_TILE_M(e), k = (k0) + A_TILE_K(e);                                               \
        next_a[j] = m < DST_DIM(6) && k < A_DIM(7) ? LOAD(A, a, A_OFFSET(a0, a1, a2, a3, a4, a5, m, k)) : 0.0f; \
    }                                                                                                           \
    _Pragma("unroll") for (int j = 0; j < B_SHARE; ++j) {                                                       \
        const int e = item + j * GROUP_SIZE;                                                                    \
        const idx_t n = n0 + B_TILE_N(e), k = (k0) + B_TILE_K(e);                                               \
        next_b[j] = n < DST_DIM(7) && k < A_DIM(7) ? LOAD(B, b, B_OFFSET(w0, w1, w2, w3, w4, w5, k, n)) : 0.0f; \
    }

__kernel __attribute__((reqd_work_group_size(LOCAL_X, LOCAL_Y, 1)))
void matmul_local(TENSOR_IN(A, a), TENSOR_IN(B, b), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS) {
    LOCAL_TILE(left, ROW_PITCH);
    LOCAL_TILE(right, COLUMN_PITCH);
    const int item = (int)get_local_id(1) * LOCAL_X + (int)get_local_id(0);
    const idx_t n0 = (idx_t)get_group_id(0) * COLUMNS, m0 = (idx_t)get_group_id(1) * ROWS;
    idx_t rest = (idx_t)get_group_id(2);
    const idx_t b5 = rest % DST_DIM(5);
    rest /= DST_DIM(5);
    const idx_t b4 = rest % DST_DIM(4);
    rest /= DST_DIM(4);
    const idx_t b3 = rest % DST_DIM(3);
    rest /= DST_DIM(3);
    const idx_t b2 = rest % DST_DIM(2);
    rest /= DST_DIM(2);
    const idx_t b1 = rest % DST_DIM(1), b0 = rest / DST_DIM(1);
    const idx_t a0 = STACKED(A, 0, b0), a1 = STACKED(A, 1, b1), a2 = STACKED(A, 2, b2), a3 = STACKED(A, 3, b3),
                a4 = STACKED(A, 4, b4), a5 = STACKED(A, 5, b5);
    const idx_t w0 = STACKED(B, 0, b0), w1 = STACKED(B, 1, b1), w2 = STACKED(B, 2, b2), w3 = STACKED(B, 3, b3),
                w4 = STACKED(B, 4, b4), w5 = STACKED(B, 5, b5);

    float4 acc[TILE_Y][TILE_X / 4];
    _Pragma("unroll") for (int y = 0; y < TILE_Y; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_X / 4; ++x) acc[y][x] = (float4)(0.0f);
    float next_a[A_SHARE], next_b[B_SHARE];
    FETCH(0)
    for (idx_t k0 = 0; k0 < A_DIM(7); k0 += TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("unroll") for (int j = 0; j < A_SHARE; ++j) {
            const int e = item + j * GROUP_SIZE;
            if (e < ROWS * TILE_K) left[A_TILE_K(e) * ROW_PITCH + A_TILE_M(e)] = next_a[j];
        }
        _Pragma("unroll") for (int j = 0; j < B_SHARE; ++j) {
            const int e = item + j * GROUP_SIZE;
            if (e < COLUMNS * TILE_K) right[B_TILE_K(e) * COLUMN_PITCH + B_TILE_N(e)] = next_b[j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k0 + TILE_K < A_DIM(7)) {
            FETCH(k0 + TILE_K)
        }
        MULTIPLY_TILES(left, right, acc)
    }

    float4 sums[TILE_Y][TILE_X / 4];  // through memory, so that what follows is a loop
    _Pragma("unroll") for (int y = 0; y < TILE_Y; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_X / 4; ++x) sums[y][x] = acc[y][x];
    for (int y = 0; y < TILE_Y; ++y) {
        const idx_t m = m0 + TILE_ROW(y);
        if (m >= DST_DIM(6)) continue;
        const float* sum = (const float*)sums[y];
        for (int x = 0; x < TILE_X; ++x) {
            const idx_t n = n0 + TILE_COLUMN(x);
            if (n >= DST_DIM(7)) continue;
            const float value = EPILOGUE(sum[x], n, RES_OFFSET(b0, b1, b2, b3, b4, b5, m, n));
            STORE(DST, dst, DST_OFFSET(b0, b1, b2, b3, b4, b5, m, n), value);
        }
    }
}
