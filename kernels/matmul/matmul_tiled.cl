// Products of stacks of matrices with register tiles, for CPUs: vectors run along columns.
//
//   dst[b, m, n] = activation(sum over k of a[b, m, k] * pan[b, n, k] + bias[n] + res[b, m, n])
// b stands for six stacking dimensions b0 .. b5; where A or PAN has size 1 in one of them it is repeated.
//
// Tensors: A (b0 .. b5, m, k), PAN (b0 .. b5, n, k), DST and RES (b0 .. b5, m, n), BIAS (n); each at *_OFFSET of its own
// layout.  DST has no blocks.
// Assumed of PAN: VECTOR columns n from a multiple of VECTOR on lie side by side, and those that are padding can be
// read: weights in blocks of 16 outputs, what matmul_pack wrote, or plain rows when n is a multiple of VECTOR.
//
// One work-item computes TILE_ROWS rows of TILE_VECTORS * VECTOR columns; global ids: tile of rows, tile of columns, b.
// The sum is kept in f32, in the order of k.
#include "common/epilogue.clh"

#ifndef A_DTYPE  // on its own: f32, plain, panels of 16 columns
#define PLAIN_OFFSET8(t, a, b, c, d, e, f, m, n) \
    (PLAIN_OFFSET6(t, a, b, c, d, e, f) + (m)*PLAIN_STRIDE(t, 6) + (n)*PLAIN_STRIDE(t, 7))
#define A_DTYPE f32
#define A_OFFSET(b0, b1, b2, b3, b4, b5, m, k) PLAIN_OFFSET8(a, b0, b1, b2, b3, b4, b5, m, k)
#define A_DIM(i) PLAIN_DIM(a, i)
#define A_UNIT_DIM 7
#define A_UNIT_RUN 0
#define PAN_DTYPE f32
#define PAN_OFFSET(b0, b1, b2, b3, b4, b5, n, k) \
    (PLAIN_OFFSET8(pan, b0, b1, b2, b3, b4, b5, (n) >> 4, k) + ((n) & 15))
#define PAN_DIM(i) PLAIN_DIM(pan, i)
#define PAN_PADDED(i) ((i) == 6 ? (PLAIN_DIM(pan, 6) + 15) / 16 * 16 : PLAIN_DIM(pan, i))
#define DST_DTYPE f32
#define DST_OFFSET(b0, b1, b2, b3, b4, b5, m, n) PLAIN_OFFSET8(dst, b0, b1, b2, b3, b4, b5, m, n)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_UNIT_DIM 7
#endif

#ifndef VECTOR
#define VECTOR 8  // columns in a vector: 2, 4, 8, 16
#endif
#ifndef TILE_VECTORS
#define TILE_VECTORS 2  // vectors a work-item: 1, 2, 4
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 6  // rows a work-item: 1 to 16
#endif

#if A_UNIT_DIM == 7 && A_UNIT_RUN == 0
#define A_DEPTH(k) (k)
#else
#define A_DEPTH(k) (A_OFFSET(0, 0, 0, 0, 0, 0, 0, k) - A_OFFSET(0, 0, 0, 0, 0, 0, 0, 0))
#endif
// Index i in stacking dimension `dim` of tensor T, for tensors that are repeated along it.
#define STACKED(T, dim, i) min((i), T##_DIM(dim) - 1)

typedef COMPUTE_VT(PAN, VECTOR) vec;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((intel_vec_len_hint(1)))
void matmul_tiled(TENSOR_IN(A, a), TENSOR_IN(PAN, pan), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS) {
    const idx_t m0 = (idx_t)get_global_id(0) * TILE_ROWS, n0 = (idx_t)get_global_id(1) * (VECTOR * TILE_VECTORS);
    idx_t rest = (idx_t)get_global_id(2);
    const idx_t b5 = rest % DST_DIM(5);
    rest /= DST_DIM(5);
    const idx_t b4 = rest % DST_DIM(4);
    rest /= DST_DIM(4);
    const idx_t b3 = rest % DST_DIM(3);
    rest /= DST_DIM(3);
    const idx_t b2 = rest % DST_DIM(2);
    rest /= DST_DIM(2);
    const idx_t b1 = rest % DST_DIM(1), b0 = rest / DST_DIM(1);

    // Beyond the last row and the last vector the last one is repeated; those sums are not stored.
    idx_t row_at[TILE_ROWS], vector_at[TILE_VECTORS];
    for (int p = 0; p < TILE_ROWS; ++p)
        row_at[p] = A_OFFSET(STACKED(A, 0, b0), STACKED(A, 1, b1), STACKED(A, 2, b2), STACKED(A, 3, b3),
                             STACKED(A, 4, b4), STACKED(A, 5, b5), min(m0 + p, DST_DIM(6) - 1), 0);
    for (int v = 0; v < TILE_VECTORS; ++v)
        vector_at[v] = PAN_OFFSET(STACKED(PAN, 0, b0), STACKED(PAN, 1, b1), STACKED(PAN, 2, b2), STACKED(PAN, 3, b3),
                                  STACKED(PAN, 4, b4), STACKED(PAN, 5, b5),
                                  min(n0 + v * VECTOR, PAN_PADDED(6) - VECTOR), 0);
    const idx_t pan_step = PAN_OFFSET(0, 0, 0, 0, 0, 0, 0, 1) - PAN_OFFSET(0, 0, 0, 0, 0, 0, 0, 0);

    vec acc[TILE_ROWS][TILE_VECTORS];
    _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p)
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] = (vec)(0.0f);
    for (idx_t k = 0; k < A_DIM(7); ++k) {
        const idx_t depth = A_DEPTH(k), step = k * pan_step;
        vec columns[TILE_VECTORS];
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v)
            columns[v] = LOADV(PAN, VECTOR, pan, vector_at[v] + step);
        _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p) {
            const float x = LOAD(A, a, row_at[p] + depth);
            _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] += x * columns[v];
        }
    }

    // Through memory, so that what follows is a loop: it is long where the activation is.
    vec sums[TILE_ROWS][TILE_VECTORS];
    _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p)
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) sums[p][v] = acc[p][v];
    for (int p = 0; p < TILE_ROWS && m0 + p < DST_DIM(6); ++p) {
        const idx_t m = m0 + p;
        for (int v = 0; v < TILE_VECTORS; ++v) {
            const idx_t n = n0 + v * VECTOR;
#if DST_UNIT_DIM == 7
            if (n + VECTOR <= DST_DIM(7)) {
                const vec y = EPILOGUE_V(VECTOR, sums[p][v], n, RES_OFFSET(b0, b1, b2, b3, b4, b5, m, n));
                STOREV(DST, VECTOR, dst, DST_OFFSET(b0, b1, b2, b3, b4, b5, m, n), y);
                continue;
            }
#endif
            const float* sum = (const float*)&sums[p][v];
            for (int j = 0; j < VECTOR && n + j < DST_DIM(7); ++j) {
                const float y = EPILOGUE(sum[j], n + j, RES_OFFSET(b0, b1, b2, b3, b4, b5, m, n + j));
                STORE(DST, dst, DST_OFFSET(b0, b1, b2, b3, b4, b5, m, n + j), y);
            }
        }
    }
}
