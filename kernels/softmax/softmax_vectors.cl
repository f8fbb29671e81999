// Softmax by vectors, for CPUs: along any one dimension of a dense tensor without padding.
//
//   dst = exp(src - m) / s           m the maximum of the row, s the sum of exp(src - m) over it
//   dst = src - m - log(s)           with LOG
// Three passes over the row: maximum, sum, result; a NaN in a row makes all of it NaN.  Powers are kept in dst where
// KEEP says that no other work-item writes there.
//
// Tensors: SRC and DST, addressed alike by common/row_vectors.clh, which says what a work-item takes.
#include "common/row_vectors.clh"
#include "common/elementary.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef LOG
#define LOG 0  // 1: the logarithm of the softmax
#endif
#ifndef KEEP
#define KEEP 0  // 1: dst holds the powers between the passes; f32 and work-items that do not overlap
#endif

#define LARGEST(k, c, at, b, s, r, fresh, tail)            \
    {                                                      \
        const vec x = LOADV(SRC, VECTOR, src, at);         \
        largest[k] = PL_MORE(x, largest[k]);               \
    }
#define POWER(c, at) poly_exp(LOADV(SRC, VECTOR, src, at) - ROW_TOTAL(most, c))
#define ADD_POWER(k, c, at, b, s, r, fresh, tail)                               \
    {                                                                           \
        const vec e = POWER(c, at);                                             \
        if (KEEP && !(tail)) STOREV(DST, VECTOR, dst, at, e);                   \
        ROW_SUM_ADD(k, ROW_FRESH(fresh, e, 0.0f))           \
    }
#if LOG
#define RESULT(k, c, at, b, s, r, fresh, tail)                                                                     \
    {                                                                                                              \
        const vec y = LOADV(SRC, VECTOR, src, at) - ROW_TOTAL(most, c) - ROW_TOTAL(totals, c);                     \
        STOREV(DST, VECTOR, dst, at, y);                                                                           \
    }
#else
// The tail overlaps what is a result already: there powers are made once more, from src.
#define RESULT(k, c, at, b, s, r, fresh, tail)                                                                     \
    {                                                                                                              \
        const vec y = (KEEP && !(tail) ? LOADV(DST, VECTOR, dst, at) : POWER(c, at)) * ROW_TOTAL(totals, c);       \
        STOREV(DST, VECTOR, dst, at, y);                                                                           \
    }
#endif

ROW_KERNEL void softmax_vectors(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                                const row_walk walk) {
    ROW_BEGIN(walk)
    vec largest[ROW_SUMS], most[ROW_TOTALS];
    for (int k = 0; k < ROW_SUMS; ++k) largest[k] = (vec)(-INFINITY);
    ROW_WALK(walk, LARGEST)  // a NaN shows in the sum
    ROW_JOIN(PL_MORE, largest, most)
    ROW_FOLD(PL_MORE, most)
    ROW_SUM_BEGIN
    ROW_WALK(walk, ADD_POWER)
    ROW_SUM_END(totals)
    for (int t = 0; t < ROW_TOTALS; ++t)
#if LOG
        totals[t] = log(totals[t]);
#else
        totals[t] = 1.0f / totals[t];
#endif
    ROW_WALK(walk, RESULT)
}
