// Sum, mean, maximum and their like of rows by work-groups, for GPUs: of dense tensors without padding.
//
//   dst[row] = finish(fold of element(src[row, e]) over e)
//
// Of rows in several parts each gives its fold (reduce_parts), stats[part, row], which reduce_join folds in order.
//
// Tensors: SRC, addressed by common/row_groups.clh, which says what a work-item takes; DST with a number for each row.
#include "common/row_groups.clh"
#include "reduce/fold.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#if ROOT
#define FINISH(x) sqrt((x) / divisor)
#else
#define FINISH(x) ((x) / divisor)
#endif

static inline float fold_2(float x, float y) { return JOIN(x, y); }
static inline float fold_4(float4 v) { return fold_2(fold_2(v.s0, v.s2), fold_2(v.s1, v.s3)); }
#if ACROSS || VECTOR == 1
#define FOLD_OF(v) (v)
#elif VECTOR == 4
#define FOLD_OF(v) fold_4(v)
#else
#define FOLD_OF(v) fold_2(fold_4(v.lo), fold_4(v.hi))
#endif

// Declares folded, of the part.
#define GROUP_FOLD                                                          \
    GROUP_LOAD(x, NOTHING)                                                  \
    vec folds_ = ELEMENT_OF(x[0]);                                          \
    _Pragma("unroll") for (int k = 1; k < KEPT; ++k) {                             \
        const vec y = ELEMENT_OF(x[k]);                                     \
        folds_ = JOIN(y, folds_);                                           \
    }                                                                       \
    stat folded = FOLD_OF(folds_);                                          \
    GROUP_JOIN(stat, 0, folded, JOIN)

GROUP_KERNEL void reduce_groups(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                                const idx_t rows, const float divisor) {
    GROUP_MEMORY(stat, 0)
    GROUP_BEGIN((idx_t)get_group_id(0))
    GROUP_FOLD
    if (!GROUP_WRITES) return;
    const stat y = FINISH(folded);
#if ACROSS && VECTOR > 1
    STOREV(DST, VECTOR, dst, GROUP_ROW, y);
#else
    STORE(DST, dst, GROUP_ROW, y);
#endif
}

GROUP_KERNEL void reduce_parts(__global const STORAGE_T(SRC)* restrict src, __global float* restrict stats,
                               const idx_t rows) {
    GROUP_MEMORY(stat, 0)
    GROUP_BEGIN((idx_t)get_group_id(0))
    GROUP_FOLD
    if (GROUP_WRITES) STORE_STAT(stats, (idx_t)part_ * rows + GROUP_ROW, folded);
}

__kernel void reduce_join(__global const float* restrict stats, __global STORAGE_T(DST)* restrict dst, const idx_t rows,
                          const float divisor) {
    const idx_t row = (idx_t)get_global_id(0);
    if (row >= rows) return;
#if FOLD == 0
    SUM_OF_PARTS(float, folded, PARTS, p, stats[(idx_t)p * rows + row])
#else
    float folded = stats[row];
    _Pragma("unroll 8") for (int p = 1; p < PARTS; ++p) {
        const float y = stats[(idx_t)p * rows + row];
        folded = JOIN(y, folded);
    }
#endif
    STORE(DST, dst, row, FINISH(folded));
}
