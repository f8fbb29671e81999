// A run of places of a tensor overwritten, from an offset on that is known when it runs; any layouts.
//
//   dst[n, ..., at[n] + j, ...] = src[n, ..., j, ...]      j along one dimension; dst is else as it was
//
// Tensors: SRC and DST, each in its own layout, AT (s32 or s64) of one number, or one for each n.  In terms of src's
// i0, i1, ...: AT_TAKEN is the offset in AT of the number to use, ALONG the index j, DST_TAKEN the offset in DST with
// `place` in the place of j; DST_SIZE is dst's size there.  CIRCULAR: behind the end it goes on at the beginning; else
// what is beyond the end is left out.
// One work-item copies one element of src; neighbours read neighbours in memory.
//
// With PAIR it does the same to further tensors that lie alike, src_b, at_b and dst_b, by work-items of 1 in the second
// dimension; src_b begins src_more elements further on.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, one dimension
#define SRC_DTYPE f32
#define SRC_INDICES(place, i) const idx_t i##0 = (place);
#define SRC_INSIDE(i) 1
#define SRC_AT(i) PLAIN_OFFSET1(src, i##0)
#define AT_DTYPE s64
#define AT_TAKEN (at_arg.offset)
#define ALONG i0
#define DST_DTYPE f32
#define DST_TAKEN PLAIN_OFFSET1(dst, place)
#define DST_SIZE PLAIN_DIM(dst, 0)
#endif
#ifndef CIRCULAR
#define CIRCULAR 0
#endif
#ifndef PAIR
#define PAIR 0  // 0, 1
#endif
#if PAIR
#define FURTHER                                                                                                    \
    , __global const STORAGE_T(SRC) * restrict src_b, __global const STORAGE_T(AT) * restrict at_b,                \
        __global STORAGE_T(DST) * restrict dst_b, const long src_more
#define SRC_MORE (get_global_id(1) ? src_more : 0)
#define TAKEN(name) (get_global_id(1) ? name##_b : name)
#else
#define FURTHER
#define SRC_MORE 0
#define TAKEN(name) name
#endif

__kernel void tensor_scatter_direct(TENSOR_IN(SRC, src), TENSOR_IN(AT, at), TENSOR_OUT(DST, dst),
                                    const idx_t places FURTHER) {
    const idx_t item = (idx_t)get_global_id(0);
    if (item >= places) return;
    SRC_INDICES(item, i)
    if (!SRC_INSIDE(i)) return;
    long wanted = LOAD(AT, TAKEN(at), AT_TAKEN) + ALONG;
#if CIRCULAR
    wanted %= DST_SIZE;
#endif
    if (wanted < 0 || wanted >= DST_SIZE) return;
    const idx_t place = (idx_t)wanted;
    STORE(DST, TAKEN(dst), DST_TAKEN, LOAD(SRC, TAKEN(src), SRC_AT(i) + SRC_MORE));
}
