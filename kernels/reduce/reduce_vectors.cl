// Sum, mean, maximum and their like of rows by vectors, for CPUs: of dense tensors without padding.
//
//   dst[row] = finish(fold of element(src[row, e]) over e)
//
// Tensors: SRC, addressed by common/row_vectors.clh, which says what a work-item takes; DST with a number for each row,
// row = o * inner + i.
#include "common/row_vectors.clh"
#include "reduce/fold.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#define ADD(k, c, at, b, s, r, fresh, tail)                                              \
    {                                                                                    \
        const vec x = ROW_FRESH(fresh, LOADV(SRC, VECTOR, src, at), 0.0f);               \
        ROW_SUM_ADD(k, ELEMENT_OF(x))                                \
    }
#define TAKE(k, c, at, b, s, r, fresh, tail)                                             \
    {                                                                                    \
        const vec x = LOADV(SRC, VECTOR, src, at);                                       \
        best[k] = JOIN(x, best[k]);                                                    \
    }

ROW_KERNEL void reduce_vectors(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                               const row_walk walk, const float divisor) {
    ROW_BEGIN(walk)
#if FOLD == 0
    ROW_SUM_BEGIN
    ROW_WALK(walk, ADD)
    ROW_SUM_END(totals)
#else
    vec best[ROW_SUMS], totals[ROW_TOTALS];
    for (int k = 0; k < ROW_SUMS; ++k) best[k] = (vec)(NOTHING);
    ROW_WALK(walk, TAKE)
    ROW_JOIN(JOIN, best, totals)
    ROW_FOLD(JOIN, totals)
#endif
    for (int t = 0; t < ROW_TOTALS; ++t) {
        vec y = totals[t] / divisor;
#if ROOT
        y = sqrt(y);
#endif
#if ACROSS
        STOREV(DST, VECTOR, dst, o_ * walk.inner + i_ + t * VECTOR, y);
#else
        STORE(DST, dst, o_ * walk.inner + i_, y.s0);
#endif
    }
}
