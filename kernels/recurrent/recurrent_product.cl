// Products of matrices of any strides, summed over directions or not: those of recurrent layers and their gradients.
//
//   dst[z, m, n] = sum over s and k of a[z, s, m, k] * b[z, s, n, k]
//
// with a at a.offset + z * a.each + s * a.sum + m * a.outer + k * a.inner, b alike by n, and dst at offset + z * each +
// m * outer + n.  A_INNER and B_INNER tell whether neighbours along k lie side by side: then tiles are read along k.
// A work-group computes TILE x TILE results of one z, each of its ITEMS x ITEMS work-items (TILE / ITEMS)^2 of them,
// from tiles in local memory; sums are of f32 in ascending order, so that results are the same bits in every run.
#include "common/tensor.clh"

#ifndef TILE
#define TILE 32  // results along each side of a work-group: 16, 32, 64
#endif
#ifndef ITEMS
#define ITEMS 16  // work-items along each side: 4, 8, 16
#endif
#ifndef TERMS
#define TERMS 16  // along k at a time
#endif
#ifndef A_DTYPE  // on its own: f32, terms innermost
#define A_DTYPE f32
#define B_DTYPE f32
#define DST_DTYPE f32
#define A_INNER 1
#define B_INNER 1
#endif
#define EACH (TILE / ITEMS)

typedef struct {
    int offset, each, sum, outer, inner;
} matrix_place;

#define COPY_TILE(T, tile, from, place, inner_first, count, first)                                        \
    for (int one = item; one < TILE * TERMS; one += ITEMS * ITEMS) {                                      \
        const int row = (int)(inner_first ? (uint)one / TERMS : (uint)one % TILE);                        \
        const int term = (int)(inner_first ? (uint)one % TERMS : (uint)one / TILE);                       \
        const int at = first + row;                                                                       \
        tile[term * (TILE + 1) + row] =                                                                   \
            at < count && k + term < terms                                                                \
                ? LOAD(T, from, place.offset + z * place.each + s * place.sum + at * place.outer +        \
                                    (k + term) * place.inner)                                             \
                : 0.0f;                                                                                   \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, ITEMS, 1)))
void recurrent_product(__global const STORAGE_T(A)* restrict a, __global const STORAGE_T(B)* restrict b,
                       __global STORAGE_T(DST)* restrict dst, const matrix_place of_a, const matrix_place of_b,
                       const matrix_place of_dst, const int rows, const int columns, const int terms, const int sums) {
    __local float left[TERMS * (TILE + 1)], right[TERMS * (TILE + 1)];
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), item = y * ITEMS + x, z = (int)get_group_id(2);
    const int n0 = (int)get_group_id(0) * TILE, m0 = (int)get_group_id(1) * TILE;
    float sum[EACH][EACH];
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) sum[i][j] = 0.0f;
    for (int s = 0; s < sums; ++s)
        for (int k = 0; k < terms; k += TERMS) {
            barrier(CLK_LOCAL_MEM_FENCE);
            COPY_TILE(A, left, a, of_a, A_INNER, rows, m0)
            COPY_TILE(B, right, b, of_b, B_INNER, columns, n0)
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int term = 0; term < TERMS; ++term)
                for (int i = 0; i < EACH; ++i)
                    for (int j = 0; j < EACH; ++j)
                        sum[i][j] = fma(left[term * (TILE + 1) + y + i * ITEMS],
                                        right[term * (TILE + 1) + x + j * ITEMS], sum[i][j]);
        }
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) {
            const int m = m0 + y + i * ITEMS, n = n0 + x + j * ITEMS;
            if (m < rows && n < columns)
                STORE(DST, dst, of_dst.offset + z * of_dst.each + m * of_dst.outer + n, sum[i][j]);
        }
}
