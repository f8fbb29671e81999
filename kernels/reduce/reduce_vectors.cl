// Sum, mean, maximum and their like of rows by vectors, for CPUs: of dense tensors without padding.
//
//   dst[row] = finish(fold of element(src[row, e]) over e)
//
// Tensors: SRC, addressed by common/row_vectors.clh, which says what a work-item takes; DST with a number for each row,
// row = o * inner + i.
#include "common/row_vectors.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef FOLD
#define FOLD 0  // 0: sum, 1: maximum, 2: minimum; a NaN wins either
#endif
#ifndef ELEMENT
#define ELEMENT 0  // of a sum: 0: x, 1: |x|, 2: x * x
#endif
#ifndef ROOT
#define ROOT 0  // 1: the root of the result
#endif

#if ELEMENT == 0
#define ELEMENT_OF(x) (x)
#elif ELEMENT == 1
#define ELEMENT_OF(x) fabs(x)
#else
#define ELEMENT_OF(x) ((x) * (x))
#endif
#if FOLD == 1
#define NOTHING (-INFINITY)
#define WINNER(x, y) (((x) > (y)) || ((x) != (x)) ? (x) : (y))
#elif FOLD == 2
#define NOTHING INFINITY
#define WINNER(x, y) (((x) < (y)) || ((x) != (x)) ? (x) : (y))
#endif

#define ADD(k, c, at, b, s, r, fresh, tail)                                              \
    {                                                                                    \
        const vec x = ROW_FRESH(fresh, LOADV(SRC, VECTOR, src, at), 0.0f);               \
        ROW_SUM_ADD(k, ELEMENT_OF(x))                                \
    }
#define TAKE(k, c, at, b, s, r, fresh, tail)                                             \
    {                                                                                    \
        const vec x = LOADV(SRC, VECTOR, src, at);                                       \
        best[k] = WINNER(x, best[k]);                                                    \
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
    ROW_JOIN(WINNER, best, totals)
    ROW_FOLD(WINNER, totals)
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
