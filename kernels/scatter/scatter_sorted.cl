// Elements put to places that indices say, any layouts: each result gathers what reaches it, so that sums repeat.
//
//   dst[i...] = x[i...], joined with each src[..., j, ...] whose index names that place, in the order of j
//
// Tensors: X, SRC and DST, each in its own layout; `lists`, from `from` on, of `count` elements for each row of the
// index: the numbers of the slices that it names with the j of each (common/sorted_list.clh).
// In terms of dst's i0, i1, ...: REACHED, whether src has elements beside the dimensions that are indexed; ROW_OF(s)
// and PLACE_OF_SLICE(s), which row of the index and which slice that is, by the steps s; SRC_TAKEN, the offset in SRC
// of element `picked`.  Results are joined as f32, integers wrap around.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "common/sorted_list.clh"

#ifndef REDUCE
#define REDUCE 0  // 0: the last one stays, 1: sum, 2: product, 3: largest, 4: smallest; NaN stays
#endif
#ifndef SRC_DTYPE  // on its own: f32, plain, one dimension
#define SRC_DTYPE f32
#define SRC_TAKEN PLAIN_OFFSET1(src, picked)
#define REACHED 1
#define ROW_OF(s) 0
#define PLACE_OF_SLICE(s) i0
#define X_DTYPE f32
#define X_AT(i) PLAIN_OFFSET1(x, i##0)
#define DST_DTYPE f32
#define DST_INDICES(place, i) const idx_t i##0 = (place);
#define DST_INSIDE(i) 1
#define DST_AT(i) PLAIN_OFFSET1(dst, i##0)
#endif
#ifndef INTEGERS
#define INTEGERS 0  // 1: of an integer dtype
#endif

#if REDUCE == 0
typedef COMPUTE_T(X) joined_t;
#define STORE_JOINED STORE
#elif INTEGERS
typedef long joined_t;
#define STORE_JOINED STORE_WRAP
#define PL_JOIN_SUM(a, b) ((long)((ulong)(a) + (ulong)(b)))
#define PL_JOIN_PRODUCT(a, b) ((long)((ulong)(a) * (ulong)(b)))
#else
typedef float joined_t;
#define STORE_JOINED STORE
#define PL_JOIN_SUM(a, b) ((a) + (b))
#define PL_JOIN_PRODUCT(a, b) ((a) * (b))
#endif
#if REDUCE == 1
#define JOIN(a, b) PL_JOIN_SUM(a, b)
#elif REDUCE == 2
#define JOIN(a, b) PL_JOIN_PRODUCT(a, b)
#elif REDUCE == 3
#define JOIN(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#else
#define JOIN(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))
#endif

typedef struct {
    int row[PL_RANK], place[PL_RANK];
} steps_t;

__kernel void scatter_sorted(TENSOR_IN(X, x), TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), __global const ulong* lists,
                             const ulong from, const uint count, const steps_t steps, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0);
        return;
    }
    joined_t y = LOAD(X, x, X_AT(i));
    if (REACHED) {
        __global const ulong* list = lists + from + (size_t)(ROW_OF(steps)) * count;
        const ulong key = LIST_KEY(PLACE_OF_SLICE(steps));
#if REDUCE == 0
        const uint end = first_of(list, count, key + ((ulong)1 << 32));
        if (end > 0 && list[end - 1] >= key) {
            const idx_t picked = (uint)list[end - 1];
            y = LOAD(SRC, src, SRC_TAKEN);
        }
#else
        for (uint k = first_of(list, count, key); k < count && HAS_KEY(list[k], key); ++k) {
            const idx_t picked = (uint)list[k];
            const joined_t more = LOAD(SRC, src, SRC_TAKEN);
            y = JOIN(y, more);
        }
#endif
    }
    STORE_JOINED(DST, dst, DST_AT(i), y);
}
