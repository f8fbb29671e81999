// Layer and group normalisation by work-groups, for GPUs: of dense tensors without padding.
//
//   dst = (src - mean) / sqrt(var + eps) * weight[p] + bias[p]
// with mean and (biased) variance of the row: the mean, then the mean of squared differences, of what work-items hold
// (ALONE: both as it arrives, see GROUP_MOMENTS).
// A row that is one part is read once.  Of several parts each gives its mean and its sum of squared differences from it
// (normalise_parts), which are joined in order (normalise_join); normalise_apply reads the row again, the last part
// first, which the caches may still hold.
//
// Tensors: SRC and DST, addressed alike by common/row_groups.clh, which says what a work-item takes; WEIGHT and BIAS of
// one dimension, where the op has them.  With q = row % groups * weights_of_row, the place p of an element is
//   WEIGHTS 0   q                  one for the row; ACROSS each row has its own
//   WEIGHTS 1   q + t / WEIGHT_BLOCK * WEIGHT_RUN + t % WEIGHT_RUN   t the element's number in the row; along vectors
//   WEIGHTS 2   q + t / WEIGHT_BLOCK                                 the same for all of a vector
//   WEIGHTS 3   q + r              of a row in steps: its place in the run
//   WEIGHTS 4   q + s              the step
// STATS of f32: the rows' means and sums of squares of part 0, of part 1, ..., then means and factors of whole rows.
#include "common/row_groups.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#include "normalise/scale.clh"
#ifndef WEIGHTS
#define WEIGHTS 0
#define WEIGHT_BLOCK 1
#define WEIGHT_RUN 1
#endif

#define STATS_AT(part, which) (((idx_t)(part) * 2 + (which)) * rows + GROUP_ROW)
#define PLACE_OF_ROW ((GROUP_ROW % groups) * weights_of_row)
#if WEIGHTS == 0
#define PLACE(k) PLACE_OF_ROW
#elif WEIGHTS == 1
#define PLACE(k) (PLACE_OF_ROW + GROUP_TERM(k) / WEIGHT_BLOCK * WEIGHT_RUN + GROUP_TERM(k) % WEIGHT_RUN)
#elif WEIGHTS == 2
#define PLACE(k) (PLACE_OF_ROW + GROUP_TERM(k) / WEIGHT_BLOCK)
#elif WEIGHTS == 3
#define PLACE(k) (PLACE_OF_ROW + l_ % RUN_LANES * VECTOR)
#else
#define PLACE(k) (PLACE_OF_ROW + GROUP_TERM(k))
#endif
#if WEIGHTS == 1 || WEIGHTS == 3  // along vectors
#define FACTORS(T, p, o) LOAD_PIECE(T, p, o)
#elif WEIGHTS == 0 && ACROSS
#define FACTORS(T, p, o) (groups == 1 ? (vec)(LOAD(T, p, 0)) : LOAD_PIECE(T, p, o))
#else
#define FACTORS(T, p, o) LOAD(T, p, o)
#endif
#include "normalise/weights.clh"
// Writes what is normalised of x by mean and scale.
#if ALONE && (WEIGHTS == 0 || WEIGHTS == 3)  // the same for all vectors of a work-item
#define WRITE(x)                                                                       \
    const vec factor_ = (vec)(scale)TIMES_WEIGHT(PLACE(0)), added_ = (vec)(0.0f)PLUS_BIAS(PLACE(0)); \
    EACH_HELD(x, PL_WRITE)
#define PL_WRITTEN(k, v) (((v) - mean) * factor_ + added_)
#else
#define WRITE(x) EACH_HELD(x, PL_WRITE)
#define PL_WRITTEN(k, v) (((v) - mean) * scale TIMES_WEIGHT(PLACE(k)) PLUS_BIAS(PLACE(k)))
#endif
#define PL_WRITE(k, held)                                                              \
    if (GROUP_HAS(k)) {                                                                \
        const vec y = PL_WRITTEN(k, HELD(held));                                       \
        STORE_PIECE(DST, dst + own_, GROUP_OFFSET(k), y);                              \
    }

// Declares x, mean and squares of the part.
#define PL_SQUARE(k, held)                                                             \
    if (GROUP_WITHIN(k)) {                                                             \
        const vec d = HELD(held) - mean;                                               \
        sums_ += d * d;                                                                \
    }
#if !CENTRED
#define GROUP_MOMENTS                                                                  \
    GROUP_HOLD_ALL(x)                                                                  \
    const stat mean = (stat)(0.0f);                                                    \
    vec sums_ = (vec)(0.0f);                                                           \
    EACH_HELD(x, PL_SQUARE)                                                            \
    stat squares = STAT_SUM(sums_);                                                    \
    GROUP_SUM(1, squares)
#elif ALONE
// No other work-group computes while this one waits for memory, so each work-item takes sums and squares of differences
// from the mean of its first vector as its vectors arrive; then all join what that gives for the mean, and the squares
// from there.  Rounding weighs no more than KEPT * VECTOR of its steps even where that first vector is all that lies
// apart, for its own squares are then those of the row.
#define GROUP_MOMENTS                                                                  \
    GROUP_HOLD_ALL(x)                                                                  \
    const stat shift_ = STAT_SUM(HELD(x[0])) * (1.0f / TERMS_OF_VECTOR);               \
    vec sums_ = (vec)(0.0f), squares_ = (vec)(0.0f);                                   \
    EACH_HELD(x, PL_BOTH)                                                              \
    const float terms_ = (float)(GROUP_COUNT * TERMS_OF_VECTOR);                       \
    stat mean = STAT_SUM(sums_);                                                       \
    const stat distance_ = mean / fmax(terms_, 1.0f), mean_here_ = shift_ + distance_; \
    stat squares = STAT_SUM(squares_) - distance_ * mean;                              \
    mean = mean_here_ * terms_;                                                        \
    GROUP_SUM(0, mean)                                                                 \
    mean /= (float)TERMS_OF_PART(part_);                                               \
    squares += (mean_here_ - mean) * (mean_here_ - mean) * terms_;                     \
    GROUP_SUM(1, squares)
#define PL_BOTH(k, held)                                                               \
    if (GROUP_WITHIN(k)) {                                                             \
        const vec d = HELD(held) - shift_;                                             \
        sums_ += d;                                                                    \
        squares_ += d * d;                                                             \
    }
#define TERMS_OF_VECTOR (ACROSS ? 1 : VECTOR)
#else
#define GROUP_MOMENTS                                                                  \
    GROUP_HOLD_ALL(x)                                                                  \
    vec sums_ = (vec)(0.0f);                                                           \
    EACH_HELD(x, PL_SUM)                                                               \
    stat mean = STAT_SUM(sums_);                                                       \
    GROUP_SUM(0, mean)                                                                 \
    mean /= (float)TERMS_OF_PART(part_);                                               \
    sums_ = (vec)(0.0f);                                                               \
    GROUP_AGAIN(x)                                                                     \
    EACH_HELD(x, PL_SQUARE)                                                            \
    stat squares = STAT_SUM(sums_);                                                    \
    GROUP_SUM(1, squares)
#define PL_SUM(k, held) sums_ += HELD(held);
#endif

GROUP_KERNEL void normalise_groups(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst
                                       WEIGHT_PARAMETER BIAS_PARAMETER, const idx_t rows, const float eps,
                                   const idx_t groups, const idx_t weights_of_row) {
    GROUP_MEMORY(stat, 0)
    GROUP_MEMORY(stat, 1)
    GROUP_LOCAL
    GROUP_BEGIN((idx_t)get_group_id(0))
    GROUP_MOMENTS
    const stat scale = SCALE_OF(squares, TERMS_OF_PART(0));
    GROUP_AGAIN(x)
    WRITE(x)
}

GROUP_KERNEL void normalise_parts(__global const STORAGE_T(SRC)* restrict src, __global float* restrict stats,
                                  const idx_t rows) {
    GROUP_MEMORY(stat, 0)
    GROUP_MEMORY(stat, 1)
    GROUP_LOCAL
    GROUP_BEGIN((idx_t)get_group_id(0))
    GROUP_MOMENTS
    if (GROUP_WRITES) {
        STORE_STAT(stats, STATS_AT(part_, 0), mean);
        STORE_STAT(stats, STATS_AT(part_, 1), squares);
    }
}

// Squared differences from a mean that lies at this distance from that of the terms.
static inline float squares_from(float squares, float distance, int terms) {
    return squares + distance * distance * (float)terms;
}

__kernel void normalise_join(__global float* restrict stats, const idx_t rows, const float eps) {
    const idx_t row_ = (idx_t)get_global_id(0);
    if (row_ >= rows) return;
    const float whole = (float)TERMS_OF_PART(0) * (PARTS - 1) + (float)TERMS_OF_PART(PARTS - 1);
    SUM_OF_PARTS(float, mean, PARTS, p, stats[STATS_AT(p, 0)] * ((float)TERMS_OF_PART(p) / whole))
    SUM_OF_PARTS(float, squares, PARTS, p, squares_from(stats[STATS_AT(p, 1)], stats[STATS_AT(p, 0)] - mean, TERMS_OF_PART(p)))
    stats[STATS_AT(PARTS, 0)] = mean;
    stats[STATS_AT(PARTS, 1)] = SCALE_OF(squares, whole);
}

#if LOCAL_KEPT == 0  // of rows in parts
GROUP_KERNEL void normalise_apply(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst
                                      WEIGHT_PARAMETER BIAS_PARAMETER, __global const float* restrict stats,
                                  const idx_t rows, const idx_t groups, const idx_t weights_of_row) {
    GROUP_BEGIN((idx_t)(get_num_groups(0) - 1 - get_group_id(0)))
    if (!live_) return;
    GROUP_HOLD(x, x[k])
    const stat mean = LOAD_STAT(stats, STATS_AT(PARTS, 0)), scale = LOAD_STAT(stats, STATS_AT(PARTS, 1));
    WRITE(x)
}
#endif
