// Rows times the matrices of their groups with register tiles, for CPUs: vectors run along columns.
//
//   dst[m, n] = sum over k of x[m, k] * pan[g, n, k], g the group of row m; zero for rows of none
//
// Tensors: X (m, k), PAN (g, n, k), OFF (g), DST (m, n), in f32, f16 or bf16.  X and DST are plain; PAN has its columns
// n in blocks of 16, innermost, so that VECTOR of them lie side by side and those that are padding can be read.
//
// One work-item computes TILE_ROWS rows of TILE_VECTORS * VECTOR columns of one group; global ids: slot
// (matmul/grouped_rows.clh), tile of columns.  The sum is kept in f32, in the order of k.
#include "common/tensor.clh"

#ifndef X_DTYPE  // on its own: f32, plain, panels of 16 columns
#define X_DTYPE f32
#define X_OFFSET(m, k) PLAIN_OFFSET2(x, m, k)
#define X_DIM(i) PLAIN_DIM(x, i)
#define PAN_DTYPE f32
#define PAN_OFFSET(g, n, k) (PLAIN_OFFSET3(pan, g, (n) >> 4, k) + ((n) & 15))
#define PAN_PADDED(i) ((PLAIN_DIM(pan, 1) + 15) / 16 * 16)
#define OFF_DTYPE s32
#define OFF_OFFSET(g) PLAIN_OFFSET1(off, g)
#define OFF_DIM(i) PLAIN_DIM(off, i)
#define DST_DTYPE f32
#define DST_OFFSET(m, n) PLAIN_OFFSET2(dst, m, n)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif
#include "matmul/grouped_rows.clh"

#ifndef VECTOR
#define VECTOR 8  // columns in a vector: 4, 8, 16
#endif
#ifndef TILE_VECTORS
#define TILE_VECTORS 2  // vectors a work-item: 1, 2, 4
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 6  // rows a work-item: 1, 4, 6, 12
#endif

typedef COMPUTE_VT(PAN, VECTOR) vec;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((intel_vec_len_hint(1)))
void grouped_mm_tiled(TENSOR_IN(X, x), TENSOR_IN(PAN, pan), TENSOR_IN(OFF, off), TENSOR_OUT(DST, dst)) {
    const idx_t slot = (idx_t)get_global_id(0), n0 = (idx_t)get_global_id(1) * (VECTOR * TILE_VECTORS);
    TILE_OF_SLOT(slot, TILE_ROWS, DST_DIM(0))
    if (m0 >= m_end) return;

    vec acc[TILE_ROWS][TILE_VECTORS];
    _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p)
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] = (vec)(0.0f);
    if (m_group < OFF_DIM(0)) {
        // Rows and columns that are not there: the last ones again, for sums that are not stored.
        idx_t row_at[TILE_ROWS], vector_at[TILE_VECTORS];
        for (int p = 0; p < TILE_ROWS; ++p) row_at[p] = X_OFFSET(min(m0 + p, m_end - 1), 0);
        for (int v = 0; v < TILE_VECTORS; ++v)
            vector_at[v] = PAN_OFFSET(m_group, min(n0 + v * VECTOR, PAN_PADDED(1) - VECTOR), 0);
        const idx_t pan_step = PAN_OFFSET(0, 0, 1) - PAN_OFFSET(0, 0, 0);
        for (idx_t k = 0; k < X_DIM(1); ++k) {
            vec columns[TILE_VECTORS];
            _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v)
                columns[v] = LOADV(PAN, VECTOR, pan, vector_at[v] + k * pan_step);
            _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p) {
                const float value = LOAD(X, x, row_at[p] + k);
                _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] += value * columns[v];
            }
        }
    }

    vec sums[TILE_ROWS][TILE_VECTORS];  // through memory, so that what follows is a loop
    _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p)
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) sums[p][v] = acc[p][v];
    for (int p = 0; p < TILE_ROWS && m0 + p < m_end; ++p) {
        for (int v = 0; v < TILE_VECTORS; ++v) {
            const idx_t n = n0 + v * VECTOR;
            if (n + VECTOR <= DST_DIM(1)) {
                STOREV(DST, VECTOR, dst, DST_OFFSET(m0 + p, n), sums[p][v]);
                continue;
            }
            const float* sum = (const float*)&sums[p][v];
            for (int j = 0; j < VECTOR && n + j < DST_DIM(1); ++j) STORE(DST, dst, DST_OFFSET(m0 + p, n + j), sum[j]);
        }
    }
}
