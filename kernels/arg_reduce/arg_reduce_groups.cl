// Place of the largest or smallest element of each row by work-groups, for GPUs: of dense tensors without padding.
//
//   dst[row] = the first e of those with the largest src[row, e] (ARG_MIN: the smallest); a NaN beats every number
//
// The best number is found first, by an instruction for each number; half a one more finds out whether there is a NaN,
// where all is compared again with care.  Then the least place among those that hold it.  Of rows in several parts each
// gives both (arg_reduce_parts), bests[part, row] and places[part, row], which arg_reduce_join goes through in order.
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
#if ARG_MIN
#define BETTER(x, y) fmin(x, y)  // of numbers
#else
#define BETTER(x, y) fmax(x, y)
#endif
#define NOWHERE 0x7ffffff0  // seven more can be counted

static inline float best_2(float x, float y) { return JOIN(x, y); }
static inline float best_4(float4 v) { return best_2(best_2(v.s0, v.s2), best_2(v.s1, v.s3)); }
static inline int least_4(int4 v) { return min(min(v.s0, v.s1), min(v.s2, v.s3)); }
static inline float better_4(float4 v) { return BETTER(BETTER(v.s0, v.s2), BETTER(v.s1, v.s3)); }
static inline int nan_in_4(float4 v) { return isunordered(v.s0, v.s1) || isunordered(v.s2, v.s3); }
#if VECTOR == 1
typedef int ivec;
#define NAN_IN(v) ((v) != (v))
#define NUMBERS 0
#define BEST_OF(v) (v)
#define BETTER_OF(v) (v)
#define LEAST_OF(v) (v)
#else
typedef PL_CAT(int, VECTOR) ivec;
#if VECTOR == 4
#define NAN_IN(v) nan_in_4(v)
#else
#define NAN_IN(v) (nan_in_4((v).lo) || nan_in_4((v).hi))
#endif
#if ACROSS
#define NUMBERS 0
#define BEST_OF(v) (v)
#define BETTER_OF(v) (v)
#define LEAST_OF(v) (v)
#elif VECTOR == 4
#define NUMBERS (ivec)(0, 1, 2, 3)
#define BEST_OF(v) best_4(v)
#define BETTER_OF(v) better_4(v)
#define LEAST_OF(v) least_4(v)
#else
#define NUMBERS (ivec)(0, 1, 2, 3, 4, 5, 6, 7)
#define BEST_OF(v) best_2(best_4(v.lo), best_4(v.hi))
#define BETTER_OF(v) BETTER(better_4(v.lo), better_4(v.hi))
#define LEAST_OF(v) min(least_4(v.lo), least_4(v.hi))
#endif
#endif
#if ACROSS
typedef ivec place_t;
typedef int place_t_element;
#define IS_NAN(v) NAN_IN(v)
#else
typedef int place_t, place_t_element;
#define IS_NAN(v) ((v) != (v))
#endif
#if STEPS == 1 && INNER == 1
#define NUMBER(k) GROUP_TERM(k)
#else
#define NUMBER(k) (GROUP_TERM(k) * RUN + l_ % RUN_LANES * VECTOR)
#endif

// Declares best and place, of the part.  Vectors that do not exist are others of the row while the best is looked for.
#define GROUP_BEST                                                             \
    GROUP_HOLD(x, x[k])                                                        \
    vec bests_ = HELD(x[0]);                                                   \
    int nan_ = NAN_IN(bests_);                                                 \
    _Pragma("unroll") for (int k = 1; k < KEPT; ++k) {                         \
        const vec y = HELD(x[k]);                                              \
        nan_ |= NAN_IN(y);                                                     \
        bests_ = BETTER(y, bests_);                                            \
    }                                                                          \
    stat best;                                                                 \
    if (nan_) {                                                                \
        bests_ = HELD(x[0]);                                                   \
        _Pragma("unroll") for (int k = 1; k < KEPT; ++k) {                     \
            const vec y = HELD(PL_OPAQUE(x[k]));                               \
            bests_ = JOIN(y, bests_);                                          \
        }                                                                      \
        best = BEST_OF(bests_);                                                \
    } else {                                                                   \
        best = BETTER_OF(bests_);                                              \
    }                                                                          \
    GROUP_JOIN(stat, 0, best, JOIN)                                            \
    GROUP_AGAIN(x)                                                             \
    ivec places_ = (ivec)(NOWHERE);                                            \
    _Pragma("unroll") for (int k = KEPT - 1; k >= 0; --k) if (GROUP_WITHIN(k)) \
        places_ = HELD(x[k]) == (vec)(best) ? (ivec)(NUMBER(k)) : places_;     \
    if (IS_NAN(best))                                                          \
        _Pragma("unroll") for (int k = KEPT - 1; k >= 0; --k) if (GROUP_WITHIN(k)) { \
            const vec y = HELD(PL_OPAQUE(x[k]));                               \
            places_ = y != y && (vec)(best) != (vec)(best) ? (ivec)(NUMBER(k)) : places_; \
        }                                                                      \
    places_ += NUMBERS;                                                        \
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
