// Layer and group normalisation by vectors, for CPUs: of dense tensors without padding.
//
//   dst = (src - mean) / sqrt(var + eps) * weight[p] + bias[p]
// with mean and (biased) variance of the row, in two passes: the mean, then the mean of squared differences; of rows that
// keep their mean (normalise/scale.clh) in one.
//
// Tensors: SRC and DST, addressed alike by common/row_vectors.clh, which says what a work-item takes; WEIGHT and BIAS
// of one dimension, where the op has them.  With q = row % groups * weights_of_row, row = o * inner + i, the place p is
//   BY_RUN 0   q + b * steps + s    the same for all of a vector: a block or a step is a channel
//   BY_RUN 1   q + b * run + r      channels lie side by side in a run
//   ACROSS     q                    for lane 0: each row is a channel, weights_of_row is 1; or that of BY_RUN 0
#include "common/row_vectors.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#include "normalise/scale.clh"
#ifndef BY_RUN
#define BY_RUN 1
#endif
#ifndef BY_ROW
#define BY_ROW 0  // ACROSS: 1 if each row has one weight, 0 if each step has
#endif

#if BY_RUN
#define PLACE(c, b, s, r) (q + (b) * walk.run + (r))
#define FACTORS(T, p, o) LOADV(T, VECTOR, p, o)
#elif BY_ROW
#define PLACE(c, b, s, r) (q + (c) * VECTOR)
#define FACTORS(T, p, o) LOADV(T, VECTOR, p, o)
#else
#define PLACE(c, b, s, r) (q + (b) * walk.steps + (s))
#define FACTORS(T, p, o) LOAD(T, p, o)
#endif
#include "normalise/weights.clh"

#define ADD(k, c, at, b, s, r, fresh, tail)                                                              \
    {                                                                                                    \
        const vec x = LOADV(SRC, VECTOR, src, at);                                                       \
        ROW_SUM_ADD(k, ROW_FRESH(fresh, x, 0.0f))                                    \
    }
#define ADD_SQUARE(k, c, at, b, s, r, fresh, tail)                                                       \
    {                                                                                                    \
        const vec x = LOADV(SRC, VECTOR, src, at) - ROW_TOTAL(mean, c), y = ROW_FRESH(fresh, x, 0.0f);   \
        ROW_SUM_ADD(k, y * y)                                                        \
    }
#define RESULT(k, c, at, b, s, r, fresh, tail)                                                           \
    {                                                                                                    \
        const idx_t p = PLACE(c, b, s, r);                                                               \
        (void)p;                                                                                         \
        const vec x = LOADV(SRC, VECTOR, src, at) - ROW_TOTAL(mean, c);                                  \
        const vec y = x * ROW_TOTAL(scale, c) TIMES_WEIGHT(p) PLUS_BIAS(p);                              \
        STOREV(DST, VECTOR, dst, at, y);                                                                 \
    }

ROW_KERNEL void normalise_vectors(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst
                                      WEIGHT_PARAMETER BIAS_PARAMETER, const row_walk walk, const float eps,
                                  const idx_t groups, const idx_t weights_of_row) {
    ROW_BEGIN(walk)
    const idx_t q = (o_ * walk.inner + i_) % groups * weights_of_row;
    const float terms_of_row = (float)(walk.blocks * walk.steps * walk.run);
    vec mean[ROW_TOTALS], scale[ROW_TOTALS];
#if CENTRED
    {
        ROW_SUM_BEGIN
        ROW_WALK(walk, ADD)
        ROW_SUM_END(totals)
        for (int t = 0; t < ROW_TOTALS; ++t) mean[t] = totals[t] / terms_of_row;
    }
#else
    for (int t = 0; t < ROW_TOTALS; ++t) mean[t] = (vec)(0.0f);
#endif
    {
        ROW_SUM_BEGIN
        ROW_WALK(walk, ADD_SQUARE)
        ROW_SUM_END(totals)
        for (int t = 0; t < ROW_TOTALS; ++t) scale[t] = SCALE_OF(totals[t], terms_of_row);
    }
    ROW_WALK(walk, RESULT)
}
