// Place of the largest or smallest element of each row by vectors, for CPUs: of dense tensors without padding.
//
//   dst[row] = the first e of those with the largest src[row, e] (ARG_MIN: the smallest); a NaN beats every number
//
// Tensors: SRC, addressed by common/row_vectors.clh, which says what a work-item takes, its elements numbered as they
// lie, e = (b * steps + s) * run + r; DST (s64) with a number for each row, row = o * inner + i.
#include "common/row_vectors.clh"
#include "arg_reduce/order.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE s64
#endif
// All ones in lanes where x comes before y; of vectors, so without && and ||.
#define BEATS(x, y) (BEYOND(x, y) | (((x) != (x)) & ((y) == (y))))
// Of two results the one that beats the other, or comes first.
#define JOIN(best, place, x, e)                                                      \
    {                                                                                \
        const ivec wins = BEATS(x, best), loses = BEATS(best, x);                    \
        const ivec of_equals = min(place, e), of_known = loses ? place : of_equals;  \
        place = wins ? (e) : of_known;                                               \
        best = wins ? (x) : best;                                                    \
    }

#if ACROSS
#define NUMBERS(b, s, r) (ivec)(s)
#else
#define NUMBERS(b, s, r) (LANE_NUMBERS + (ivec)(((b) * walk.steps + (s)) * walk.run + (r)))
#endif
#define TAKE(k, c, at, b, s, r, fresh, tail)                 \
    {                                                        \
        const vec x = LOADV(SRC, VECTOR, src, at);           \
        const ivec wins = BEATS(x, best[k]);                 \
        best[k] = wins ? x : best[k];                        \
        place[k] = wins ? NUMBERS(b, s, r) : place[k];       \
    }

ROW_KERNEL void arg_reduce_vectors(__global const STORAGE_T(SRC)* restrict src, __global long* restrict dst,
                                   const row_walk walk) {
    ROW_BEGIN(walk)
    // Of lanes that find nothing beyond infinity 0 is the place: so it is of the whole row then.
    vec best[ROW_SUMS];
    ivec place[ROW_SUMS];
    for (int k = 0; k < ROW_SUMS; ++k) best[k] = (vec)(NOTHING), place[k] = (ivec)(0);
    ROW_WALK(walk, TAKE)
    for (int t = 0; t < ROW_TOTALS; ++t) {
        for (int k = t + ROW_TOTALS; k < ROW_SUMS; k += ROW_TOTALS) JOIN(best[t], place[t], best[k], place[k])
#if ACROSS
        PL_CAT(vstore, VECTOR)(PL_CAT(convert_long, VECTOR)(place[t]), 0, dst + o_ * walk.inner + i_ + t * VECTOR);
#else
        float bests[VECTOR];
        int places[VECTOR];
        PL_CAT(vstore, VECTOR)(best[0], 0, bests);
        PL_CAT(vstore, VECTOR)(place[0], 0, places);
        float found = bests[0];
        int first = places[0];
        for (int lane = 1; lane < VECTOR; ++lane) {
            const float x = bests[lane];
            const int wins = BEYOND(x, found) || (x != x && found == found);
            const int same = !(BEYOND(found, x) || (found != found && x == x)) && places[lane] < first;
            found = wins || same ? x : found;
            first = wins || same ? places[lane] : first;
        }
        dst[o_ * walk.inner + i_] = first;
#endif
    }
}
