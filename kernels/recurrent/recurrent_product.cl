// Products of matrices of any strides, summed over directions or not: those of recurrent layers and their gradients.
//
//   dst[z, m, n] = sum over s and k of a[z, s, m, k] * b[z, s, n, k]
//
// with a at a.offset + z * a.each + s * a.sum + m * a.outer + k * a.inner, b alike by n, and dst at offset + z * each +
// m * outer + n.  A_INNER and B_INNER tell whether neighbours along k lie side by side: then tiles are read along k.
// A work-group of ITEMS x ITEMS work-items computes TILE x TILE results of one z from tiles in local memory; the next
// ones are read meanwhile.  A work-item has PIECES x PIECES blocks of 4 x 4 neighbours of them.  Sums are of f32 in
// ascending order, so that results are the same bits in every run.
#include "common/tensor.clh"

#ifndef TILE
#define TILE 32  // results along each side of a work-group: 32, 64, 128
#endif
#ifndef ITEMS
#define ITEMS 8  // work-items along each side: 8, 16
#endif
#ifndef ADDS
#define ADDS 0  // 1: to what dst holds
#endif
#ifndef A_DTYPE  // on its own: f32, terms innermost
#define A_DTYPE f32
#define B_DTYPE f32
#define DST_DTYPE f32
#define A_INNER 1
#define B_INNER 1
#endif
#define TERMS 16  // along k at a time
#define PIECES (TILE / ITEMS / 4)
#define PITCH (TILE + 4)                       // of a tile's terms
#define COPIES (TILE * TERMS / (ITEMS * ITEMS))  // elements of a tile that a work-item reads

typedef struct {
    int offset, each, sum, outer, inner;
} matrix_place;

// The copy-th element that this work-item reads: its row and term in the tile.
#define ROW_OF(inner_first, copy) \
    (int)(inner_first ? (item + (copy)*ITEMS * ITEMS) / TERMS : (item + (copy)*ITEMS * ITEMS) % TILE)
#define TERM_OF(inner_first, copy) \
    (int)(inner_first ? (item + (copy)*ITEMS * ITEMS) % TERMS : (item + (copy)*ITEMS * ITEMS) / TILE)
#define READ_TILE(T, ahead, from, place, inner_first, count, first)                               \
    for (int copy = 0; copy < COPIES; ++copy) {                                                   \
        const int at = first + ROW_OF(inner_first, copy), term = k + TERM_OF(inner_first, copy);  \
        ahead[copy] = at < count && term < terms                                                  \
                          ? LOAD(T, from, place.offset + z * place.each + s * place.sum +         \
                                              at * place.outer + term * place.inner)              \
                          : 0.0f;                                                                 \
    }
#define KEEP_TILE(tile, ahead, inner_first)      \
    for (int copy = 0; copy < COPIES; ++copy)    \
        tile[TERM_OF(inner_first, copy) * PITCH + ROW_OF(inner_first, copy)] = ahead[copy];

__kernel __attribute__((reqd_work_group_size(ITEMS, ITEMS, 1)))
void recurrent_product(__global const STORAGE_T(A)* restrict a, __global const STORAGE_T(B)* restrict b,
                       __global STORAGE_T(DST)* restrict dst, const matrix_place of_a, const matrix_place of_b,
                       const matrix_place of_dst, const int rows, const int columns, const int terms, const int sums) {
    __local float left[TERMS * PITCH] __attribute__((aligned(16))), right[TERMS * PITCH] __attribute__((aligned(16)));
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), z = (int)get_group_id(2);
    const uint item = (uint)(y * ITEMS + x);
    const int n0 = (int)get_group_id(0) * TILE, m0 = (int)get_group_id(1) * TILE;
    float4 sum[PIECES * 4][PIECES];
    for (int i = 0; i < PIECES * 4; ++i)
        for (int j = 0; j < PIECES; ++j) sum[i][j] = 0.0f;
    float ahead_a[COPIES], ahead_b[COPIES];
    int s = 0, k = 0;
    if (sums > 0 && terms > 0) {
        READ_TILE(A, ahead_a, a, of_a, A_INNER, rows, m0)
        READ_TILE(B, ahead_b, b, of_b, B_INNER, columns, n0)
    }
    while (s < sums && k < terms) {
        barrier(CLK_LOCAL_MEM_FENCE);
        KEEP_TILE(left, ahead_a, A_INNER)
        KEEP_TILE(right, ahead_b, B_INNER)
        barrier(CLK_LOCAL_MEM_FENCE);
        k += TERMS;
        if (k >= terms) {
            ++s;
            k = 0;
        }
        if (s < sums) {
            READ_TILE(A, ahead_a, a, of_a, A_INNER, rows, m0)
            READ_TILE(B, ahead_b, b, of_b, B_INNER, columns, n0)
        }
        for (int term = 0; term < TERMS; ++term) {
            float4 of_b_now[PIECES];
            for (int j = 0; j < PIECES; ++j)
                of_b_now[j] = *(__local const float4*)(right + term * PITCH + (j * ITEMS + x) * 4);
            for (int i = 0; i < PIECES; ++i) {
                const float4 of_a_now = *(__local const float4*)(left + term * PITCH + (i * ITEMS + y) * 4);
                for (int j = 0; j < PIECES; ++j) {
                    sum[i * 4][j] = fma((float4)(of_a_now.x), of_b_now[j], sum[i * 4][j]);
                    sum[i * 4 + 1][j] = fma((float4)(of_a_now.y), of_b_now[j], sum[i * 4 + 1][j]);
                    sum[i * 4 + 2][j] = fma((float4)(of_a_now.z), of_b_now[j], sum[i * 4 + 2][j]);
                    sum[i * 4 + 3][j] = fma((float4)(of_a_now.w), of_b_now[j], sum[i * 4 + 3][j]);
                }
            }
        }
    }
    for (int i = 0; i < PIECES * 4; ++i)
        for (int j = 0; j < PIECES; ++j) {
            const int m = m0 + (i / 4 * ITEMS + y) * 4 + i % 4, n = n0 + (j * ITEMS + x) * 4;
            const float results[4] = {sum[i][j].x, sum[i][j].y, sum[i][j].z, sum[i][j].w};
            for (int q = 0; q < 4; ++q) {
                const int at = of_dst.offset + z * of_dst.each + m * of_dst.outer + n + q;
                if (m < rows && n + q < columns)
                    STORE(DST, dst, at, ADDS ? results[q] + LOAD(DST, dst, at) : results[q]);
            }
        }
}
