// The gradient of the matrices of groups of rows with register tiles, for CPUs: vectors run along columns.
//
//   dst[g, m, n] = sum over the rows r of group g (matmul/grouped_rows.clh) of x[r, m] * grad[r, n]
//
// Tensors: X (r, m), GRAD (r, n), OFF (g), DST (g, m, n), plain, in f32, f16 or bf16; n is at least VECTOR.
//
// One work-item computes TILE_ROWS rows of VECTOR columns of one matrix; global ids: tile of columns, tile of rows, g.
// The last vector of a row ends where the row does, and what it shares with the one before is not stored again.
// The sum is kept in f32, in the order of r.
#include "common/tensor.clh"

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

#ifndef VECTOR
#define VECTOR 8  // columns a work-item: 4, 8, 16
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 8  // rows a work-item: 1, 4, 8, 12
#endif

typedef COMPUTE_VT(GRAD, VECTOR) vec;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((intel_vec_len_hint(1)))
void grouped_mm_weights_tiled(TENSOR_IN(X, x), TENSOR_IN(GRAD, grad), TENSOR_IN(OFF, off), TENSOR_OUT(DST, dst)) {
    const idx_t first = (idx_t)get_global_id(0) * VECTOR, n = min(first, DST_DIM(2) - VECTOR);
    const idx_t m0 = (idx_t)get_global_id(1) * TILE_ROWS, g = (idx_t)get_global_id(2);
    const idx_t r_begin = GROUP_BEGIN_AT(g, X_DIM(0)), r_end = GROUP_BEGIN_AT(g + 1, X_DIM(0));

    vec acc[TILE_ROWS];
    _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p) acc[p] = (vec)(0.0f);
    for (idx_t r = r_begin; r < r_end; ++r) {
        const vec columns = LOADV(GRAD, VECTOR, grad, GRAD_OFFSET(r, n));
        _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p)
            acc[p] += LOAD(X, x, X_OFFSET(r, min(m0 + p, DST_DIM(1) - 1))) * columns;
    }

    vec sums[TILE_ROWS];  // through memory, so that what follows is a loop
    _Pragma("unroll") for (int p = 0; p < TILE_ROWS; ++p) sums[p] = acc[p];
    for (int p = 0; p < TILE_ROWS && m0 + p < DST_DIM(1); ++p) {
        const idx_t at = DST_OFFSET(g, m0 + p, n);
        if (n == first) {
            STOREV(DST, VECTOR, dst, at, sums[p]);
            continue;
        }
        const float* sum = (const float*)&sums[p];
        for (int j = (int)(first - n); j < VECTOR; ++j) STORE(DST, dst, at + j, sum[j]);
    }
}
