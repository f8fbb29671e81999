// Place of the largest or smallest element of each row by work-groups, for GPUs: of dense tensors without padding.
//
//   dst[row] = the first e of those with the largest src[row, e] (ARG_MIN: the smallest); a NaN beats every number
//
// The best number is found first, then the least place among those that hold it.  Of rows in several parts each gives
// both (arg_reduce_parts), bests[part, row] and places[part, row], which arg_reduce_join goes through in order.
//
// Tensors: SRC, addressed by common/row_groups.clh, which says what a work-item takes, its elements numbered as they
// lie, e = s * RUN + r; DST (s64) with a number for each row.
#include "common/row_groups.clh"
#include "arg_reduce/order.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE s64
#endif
#define JOIN(x, y) ((BEYOND(x, y)) || ((x) != (x)) ? (x) : (y))
#define IS(x, best) (((x) == (best)) || (((x) != (x)) && ((best) != (best))))
#define NOWHERE 0x7fffffff

static inline float best_2(float x, float y) { return JOIN(x, y); }
static inline float best_4(float4 v) { return best_2(best_2(v.s0, v.s2), best_2(v.s1, v.s3)); }
static inline int least_4(int4 v) { return min(min(v.s0, v.s1), min(v.s2, v.s3)); }
#if VECTOR == 1
typedef int ivec;
#define NUMBERS(e) (e)
#define BEST_OF(v) (v)
#define LEAST_OF(v) (v)
#else
typedef PL_CAT(int, VECTOR) ivec;
#if ACROSS
#define NUMBERS(e) (ivec)(e)
#define BEST_OF(v) (v)
#define LEAST_OF(v) (v)
#elif VECTOR == 4
#define NUMBERS(e) ((ivec)(e) + (ivec)(0, 1, 2, 3))
#define BEST_OF(v) best_4(v)
#define LEAST_OF(v) least_4(v)
#else
#define NUMBERS(e) ((ivec)(e) + (ivec)(0, 1, 2, 3, 4, 5, 6, 7))
#define BEST_OF(v) best_2(best_4(v.lo), best_4(v.hi))
#define LEAST_OF(v) min(least_4(v.lo), least_4(v.hi))
#endif
#endif
#if ACROSS
typedef ivec place_t;
#else
typedef int place_t;
#endif
#if STEPS == 1 && INNER == 1
#define NUMBER(k) GROUP_TERM(k)
#else
#define NUMBER(k) (GROUP_TERM(k) * RUN + l_ % RUN_LANES * VECTOR)
#endif

// Declares best and place, of the part.
#define GROUP_BEST                                                             \
    GROUP_LOAD(x, NOTHING)                                                     \
    vec bests_ = x[0];                                                         \
    _Pragma("unroll") for (int k = 1; k < KEPT; ++k) bests_ = JOIN(x[k], bests_);  \
    stat best = BEST_OF(bests_);                                               \
    GROUP_JOIN(stat, 0, best, JOIN)                                            \
    ivec places_ = (ivec)(NOWHERE);                                            \
    EACH_KEPT(k) if (GROUP_WITHIN(k)) {                                        \
        const ivec e = NUMBERS(NUMBER(k));                                     \
        places_ = IS(x[k], (vec)(best)) ? min(places_, e) : places_;           \
    }                                                                          \
    place_t place = LEAST_OF(places_);                                         \
    GROUP_JOIN(place_t, 1, place, min)

GROUP_KERNEL void arg_reduce_groups(__global const STORAGE_T(SRC)* restrict src, __global long* restrict dst,
                                    const idx_t rows) {
    GROUP_MEMORY(stat, 0)
    GROUP_MEMORY(place_t, 1)
    GROUP_BEGIN((idx_t)get_group_id(0))
    GROUP_BEST
    if (!GROUP_WRITES) return;
#if ACROSS && VECTOR > 1
    PL_CAT(vstore, VECTOR)(PL_CAT(convert_long, VECTOR)(place), 0, dst + GROUP_ROW);
#else
    dst[GROUP_ROW] = place;
#endif
}

GROUP_KERNEL void arg_reduce_parts(__global const STORAGE_T(SRC)* restrict src, __global float* restrict bests,
                                   const idx_t rows) {
    GROUP_MEMORY(stat, 0)
    GROUP_MEMORY(place_t, 1)
    GROUP_BEGIN((idx_t)get_group_id(0))
    GROUP_BEST
    if (!GROUP_WRITES) return;
    __global int* places = (__global int*)bests + (idx_t)PARTS * rows;
    STORE_STAT(bests, (idx_t)part_ * rows + GROUP_ROW, best);
    STORE_STAT(places, (idx_t)part_ * rows + GROUP_ROW, place);
}

__kernel void arg_reduce_join(__global const float* restrict bests, __global long* restrict dst, const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0);
    if (row >= rows) return;
    __global const int* places = (__global const int*)bests + (idx_t)PARTS * rows;
    float best = bests[row];
    int place = places[row];
    _Pragma("unroll 8") for (int p = 1; p < PARTS; ++p) {
        const float x = bests[(idx_t)p * rows + row];
        const int at = places[(idx_t)p * rows + row];
        if (BEYOND(x, best) || (x != x && best == best)) {
            best = x;
            place = at;
        }
    }
    dst[row] = place;
}
