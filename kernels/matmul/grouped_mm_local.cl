// Rows times the matrices of their groups with tiles in local memory and registers, for GPUs.  Any layouts.
//
//   dst[m, n] = sum over k of x[m, k] * w[g, k, n], g the group of row m; zero for rows of none
//
// Tensors: X (m, k), W (g, k, n), OFF (g), DST (m, n); each at *_OFFSET of its own layout.  DST has no blocks.
//
// A work-group computes ROWS x COLUMNS elements of one group (common/register_tile.clh); group ids: tile of columns,
// slot (matmul/grouped_rows.clh).  It finds its group by itself, so that one launch does for all.  While a tile is
// multiplied the next one is on its way to registers.  The sum is kept in f32, in the order of k.
#include "common/tensor.clh"
#include "common/register_tile.clh"

#ifndef X_DTYPE  // on its own: f32, plain
#define X_DTYPE f32
#define X_OFFSET(m, k) PLAIN_OFFSET2(x, m, k)
#define X_DIM(i) PLAIN_DIM(x, i)
#define X_UNIT_DIM 1
#define W_DTYPE f32
#define W_OFFSET(g, k, n) PLAIN_OFFSET3(w, g, k, n)
#define W_DIM(i) PLAIN_DIM(w, i)
#define W_UNIT_DIM 2
#define OFF_DTYPE s32
#define OFF_OFFSET(g) PLAIN_OFFSET1(off, g)
#define OFF_DIM(i) PLAIN_DIM(off, i)
#define DST_DTYPE f32
#define DST_OFFSET(m, n) PLAIN_OFFSET2(dst, m, n)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif
#include "matmul/grouped_rows.clh"

// Element e of a tile: neighbouring work-items read neighbours in memory.
#if X_UNIT_DIM == 1
#define LEFT_M(e) ((e) / TILE_K)
#define LEFT_K(e) ((e) % TILE_K)
#else
#define LEFT_M(e) ((e) % ROWS)
#define LEFT_K(e) ((e) / ROWS)
#endif
#if W_UNIT_DIM == 1
#define RIGHT_N(e) ((e) / TILE_K)
#define RIGHT_K(e) ((e) % TILE_K)
#else
#define RIGHT_N(e) ((e) % COLUMNS)
#define RIGHT_K(e) ((e) / COLUMNS)
#endif
#define LEFT_SHARE ((ROWS * TILE_K + GROUP_SIZE - 1) / GROUP_SIZE)  // elements a work-item brings
#define RIGHT_SHARE ((COLUMNS * TILE_K + GROUP_SIZE - 1) / GROUP_SIZE)

// The work-item's share of the tiles that begin at term k0, zero outside of the matrices.
#define FETCH(k0)                                                                           \
    _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) {                                \
        const int e = item + j * GROUP_SIZE;                                                \
        const idx_t m = m0 + LEFT_M(e), k = (k0) + LEFT_K(e);                               \
        next_left[j] = m < m_end && k < terms ? LOAD(X, x, X_OFFSET(m, k)) : 0.0f;          \
    }                                                                                       \
    _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) {                               \
        const int e = item + j * GROUP_SIZE;                                                \
        const idx_t n = n0 + RIGHT_N(e), k = (k0) + RIGHT_K(e);                             \
        next_right[j] = n < DST_DIM(1) && k < terms ? LOAD(W, w, W_OFFSET(m_group, k, n)) : 0.0f; \
    }

__kernel __attribute__((reqd_work_group_size(LOCAL_X, LOCAL_Y, 1)))
void grouped_mm_local(TENSOR_IN(X, x), TENSOR_IN(W, w), TENSOR_IN(OFF, off), TENSOR_OUT(DST, dst)) {
    LOCAL_TILE(left, ROW_PITCH);
    LOCAL_TILE(right, COLUMN_PITCH);
    const int item = (int)get_local_id(1) * LOCAL_X + (int)get_local_id(0);
    const idx_t n0 = (idx_t)get_group_id(0) * COLUMNS, slot = (idx_t)get_group_id(1);
    TILE_OF_SLOT(slot, ROWS, DST_DIM(0))
    if (m0 >= m_end) return;  // all work-items of the group do
    const idx_t terms = m_group < OFF_DIM(0) ? X_DIM(1) : 0;

    float4 acc[TILE_Y][TILE_X / 4];
    _Pragma("unroll") for (int y = 0; y < TILE_Y; ++y)
        _Pragma("unroll") for (int c = 0; c < TILE_X / 4; ++c) acc[y][c] = (float4)(0.0f);
    float next_left[LEFT_SHARE], next_right[RIGHT_SHARE];
    FETCH(0)
    for (idx_t k0 = 0; k0 < terms; k0 += TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) {
            const int e = item + j * GROUP_SIZE;
            if (e < ROWS * TILE_K) left[LEFT_K(e) * ROW_PITCH + LEFT_M(e)] = next_left[j];
        }
        _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) {
            const int e = item + j * GROUP_SIZE;
            if (e < COLUMNS * TILE_K) right[RIGHT_K(e) * COLUMN_PITCH + RIGHT_N(e)] = next_right[j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k0 + TILE_K < terms) {
            FETCH(k0 + TILE_K)
        }
        MULTIPLY_TILES(left, right, acc)
    }

    float4 sums[TILE_Y][TILE_X / 4];  // through memory, so that what follows is a loop
    _Pragma("unroll") for (int y = 0; y < TILE_Y; ++y)
        _Pragma("unroll") for (int c = 0; c < TILE_X / 4; ++c) sums[y][c] = acc[y][c];
    for (int y = 0; y < TILE_Y; ++y) {
        const idx_t m = m0 + TILE_ROW(y);
        if (m >= m_end) continue;
        const float* sum = (const float*)sums[y];
        for (int c = 0; c < TILE_X; ++c) {
            const idx_t n = n0 + TILE_COLUMN(c);
            if (n < DST_DIM(1)) STORE(DST, dst, DST_OFFSET(m, n), sum[c]);
        }
    }
}
