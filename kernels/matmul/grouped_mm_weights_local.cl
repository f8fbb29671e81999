// The gradient of the matrices of groups of rows with tiles in local memory and registers, for GPUs.  Any layouts.
//
//   dst[g, m, n] = sum over the rows r of group g (matmul/grouped_rows.clh) of x[r, m] * grad[r, n]
//
// Tensors: X (r, m), GRAD (r, n), OFF (g), DST (g, m, n); each at *_OFFSET of its own layout.  DST has no blocks.
//
// A work-group computes ROWS x COLUMNS elements of one matrix (common/register_tile.clh); group ids: tile of columns,
// tile of rows, g.  The sum is kept in f32, in the order of r.
#include "common/tensor.clh"
#include "common/register_tile.clh"

#ifndef X_DTYPE  // on its own: f32, plain
#define X_DTYPE f32
#define X_OFFSET(r, m) PLAIN_OFFSET2(x, r, m)
#define X_DIM(i) PLAIN_DIM(x, i)
#define GRAD_DTYPE f32
#define GRAD_OFFSET(r, n) PLAIN_OFFSET2(grad, r, n)
#define OFF_DTYPE s32
#define OFF_OFFSET(g) PLAIN_OFFSET1(off, g)
#define OFF_DIM(i) PLAIN_DIM(off, i)
#define DST_DTYPE f32
#define DST_OFFSET(g, m, n) PLAIN_OFFSET3(dst, g, m, n)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif
#include "matmul/grouped_rows.clh"

#define LEFT_SHARE ((ROWS * TILE_K + GROUP_SIZE - 1) / GROUP_SIZE)  // elements a work-item brings
#define RIGHT_SHARE ((COLUMNS * TILE_K + GROUP_SIZE - 1) / GROUP_SIZE)

// The work-item's share of the tiles that begin at row r0, zero outside; neighbours read neighbours.
#define FETCH(r0)                                                                                      \
    _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) {                                           \
        const int e = item + j * GROUP_SIZE;                                                           \
        const idx_t m = m0 + e % ROWS, r = (r0) + e / ROWS;                                            \
        next_left[j] = m < DST_DIM(1) && r < r_end ? LOAD(X, x, X_OFFSET(r, m)) : 0.0f;                \
    }                                                                                                  \
    _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) {                                          \
        const int e = item + j * GROUP_SIZE;                                                           \
        const idx_t n = n0 + e % COLUMNS, r = (r0) + e / COLUMNS;                                      \
        next_right[j] = n < DST_DIM(2) && r < r_end ? LOAD(GRAD, grad, GRAD_OFFSET(r, n)) : 0.0f;      \
    }

__kernel __attribute__((reqd_work_group_size(LOCAL_X, LOCAL_Y, 1)))
void grouped_mm_weights_local(TENSOR_IN(X, x), TENSOR_IN(GRAD, grad), TENSOR_IN(OFF, off), TENSOR_OUT(DST, dst)) {
    LOCAL_TILE(left, ROW_PITCH);
    LOCAL_TILE(right, COLUMN_PITCH);
    const int item = (int)get_local_id(1) * LOCAL_X + (int)get_local_id(0);
    const idx_t n0 = (idx_t)get_group_id(0) * COLUMNS, m0 = (idx_t)get_group_id(1) * ROWS;
    const idx_t g = (idx_t)get_group_id(2);
    const idx_t r_begin = GROUP_BEGIN_AT(g, X_DIM(0)), r_end = GROUP_BEGIN_AT(g + 1, X_DIM(0));

    float4 acc[TILE_Y][TILE_X / 4];
    _Pragma("unroll") for (int y = 0; y < TILE_Y; ++y)
        _Pragma("unroll") for (int c = 0; c < TILE_X / 4; ++c) acc[y][c] = (float4)(0.0f);
    float next_left[LEFT_SHARE], next_right[RIGHT_SHARE];
    FETCH(r_begin)
    for (idx_t r0 = r_begin; r0 < r_end; r0 += TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) {
            const int e = item + j * GROUP_SIZE;
            if (e < ROWS * TILE_K) left[e / ROWS * ROW_PITCH + e % ROWS] = next_left[j];
        }
        _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) {
            const int e = item + j * GROUP_SIZE;
            if (e < COLUMNS * TILE_K) right[e / COLUMNS * COLUMN_PITCH + e % COLUMNS] = next_right[j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (r0 + TILE_K < r_end) {
            FETCH(r0 + TILE_K)
        }
        MULTIPLY_TILES(left, right, acc)
    }

    float4 sums[TILE_Y][TILE_X / 4];  // through memory, so that what follows is a loop
    _Pragma("unroll") for (int y = 0; y < TILE_Y; ++y)
        _Pragma("unroll") for (int c = 0; c < TILE_X / 4; ++c) sums[y][c] = acc[y][c];
    for (int y = 0; y < TILE_Y; ++y) {
        const idx_t m = m0 + TILE_ROW(y);
        if (m >= DST_DIM(1)) continue;
        const float* sum = (const float*)sums[y];
        for (int c = 0; c < TILE_X; ++c) {
            const idx_t n = n0 + TILE_COLUMN(c);
            if (n < DST_DIM(2)) STORE(DST, dst, DST_OFFSET(g, m, n), sum[c]);
        }
    }
}
