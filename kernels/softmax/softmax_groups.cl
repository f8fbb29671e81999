// Softmax by work-groups, for GPUs: along any one dimension of a dense tensor without padding.
//
//   dst = exp(src - m) / s           m the maximum of the row, s the sum of exp(src - m) over it
//   dst = src - m - log(s)           with LOG
// A NaN in a row makes all of it NaN.  A row that is one part is read once.  Of several parts each gives its maximum
// and sum (softmax_parts), which are joined in order (softmax_join); softmax_apply reads the row again, the last part
// first, which the caches may still hold.
//
// Tensors: SRC and DST, addressed alike by common/row_groups.clh, which says what a work-item takes.  STATS of f32: the
// rows' maxima and sums of part 0, of part 1, ..., then those of the whole rows.
#include "common/row_groups.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef LOG
#define LOG 0  // 1: the logarithm of the softmax
#endif

#define SHIFT_OF(T, most) ((most) == (T)(-INFINITY) ? (T)(0.0f) : (most))  // a part of -inf alone has no power, not NaN
#define STATS_AT(part, which) (((idx_t)(part) * 2 + (which)) * rows + GROUP_ROW)

// Declares x, shift and the sum of powers; x holds the powers, or what it did with LOG.
#define GROUP_POWERS                                                               \
    GROUP_LOAD(x, -INFINITY)                                                       \
    vec most_ = x[0];                                                              \
    EACH_KEPT(k) most_ = fmax(most_, x[k]); /* a NaN shows in the sum */           \
    stat shift = STAT_MAX(most_);                                                  \
    GROUP_MAX(0, shift)                                                            \
    const stat most = shift;                                                       \
    shift = SHIFT_OF(stat, shift);                                                       \
    vec sums_ = (vec)(0.0f);                                                       \
    EACH_KEPT(k) {                                                                 \
        const vec e = exp(x[k] - shift);                                           \
        sums_ += e;                                                                \
        if (!LOG) x[k] = e;                                                        \
    }                                                                              \
    stat sum = STAT_SUM(sums_);                                                    \
    GROUP_SUM(1, sum)

GROUP_KERNEL void softmax_groups(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                                 const idx_t rows) {
    GROUP_MEMORY(stat, 0)
    GROUP_MEMORY(stat, 1)
    GROUP_BEGIN((idx_t)get_group_id(0))
    GROUP_POWERS
    (void)most;
#if LOG
    const stat less = log(sum);
    EACH_KEPT(k) if (GROUP_HAS(k)) STORE_PIECE(DST, dst, GROUP_AT(k), ((x[k] - shift) - less));
#else
    const stat scale = 1.0f / sum;
    EACH_KEPT(k) if (GROUP_HAS(k)) STORE_PIECE(DST, dst, GROUP_AT(k), (x[k] * scale));
#endif
}

GROUP_KERNEL void softmax_parts(__global const STORAGE_T(SRC)* restrict src, __global float* restrict stats,
                                const idx_t rows) {
    GROUP_MEMORY(stat, 0)
    GROUP_MEMORY(stat, 1)
    GROUP_BEGIN((idx_t)get_group_id(0))
    GROUP_POWERS
    if (GROUP_WRITES) {
        STORE_STAT(stats, STATS_AT(part_, 0), most);
        STORE_STAT(stats, STATS_AT(part_, 1), sum);
    }
}

__kernel void softmax_join(__global float* restrict stats, const idx_t rows) {
    const idx_t row_ = (idx_t)get_global_id(0);
    if (row_ >= rows) return;
    float most = -INFINITY;
    _Pragma("unroll 8") for (int p = 0; p < PARTS; ++p) most = fmax(most, stats[STATS_AT(p, 0)]);
    const float shift = SHIFT_OF(float, most);
    SUM_OF_PARTS(float, sum, PARTS, p, stats[STATS_AT(p, 1)] * exp(stats[STATS_AT(p, 0)] - shift))
    stats[STATS_AT(PARTS, 0)] = shift;
    stats[STATS_AT(PARTS, 1)] = LOG ? log(sum) : 1.0f / sum;
}

GROUP_KERNEL void softmax_apply(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                                __global const float* restrict stats, const idx_t rows) {
    GROUP_BEGIN((idx_t)(get_num_groups(0) - 1 - get_group_id(0)))
    if (!live_) return;
    GROUP_LOAD(x, 0.0f)
    const stat shift = LOAD_STAT(stats, STATS_AT(PARTS, 0)), last = LOAD_STAT(stats, STATS_AT(PARTS, 1));
#if LOG
    EACH_KEPT(k) if (GROUP_HAS(k)) STORE_PIECE(DST, dst, GROUP_AT(k), ((x[k] - shift) - last));
#else
    EACH_KEPT(k) if (GROUP_HAS(k)) STORE_PIECE(DST, dst, GROUP_AT(k), (exp(x[k] - shift) * last));
#endif
}
