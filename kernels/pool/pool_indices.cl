// Where the maxima of a pool lie, any layout.
//
//   dst[n, c, p] = d * in_h * in_w + h * in_w + w of the largest src[n, c, d, h, w] that window p sees
//
// Of equal values the first one counts; a NaN is larger than any number, and of several the last one counts.  Which
// inputs a window sees: pool/axis.clh.
//
// Tensors: SRC and DST (n, c, d, h, w), each at *_OFFSET of its own layout; DST holds integers.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"

#ifndef ADAPTIVE
#define ADAPTIVE 0  // 1: windows share the input evenly
#endif
#ifndef DST_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define DST_DTYPE s64
#define DST_AT(i) PLAIN_OFFSET5(dst, i##0, i##1, i##2, i##3, i##4)
#define DST_INSIDE(i) 1
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif

#define LAST_NAN 1
#include "pool/largest.clh"

__kernel void pool_indices(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const window_arg window, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0L);
        return;
    }
    const idx_t at = largest_of_window(src, src_arg, window, i0, i1, i2, i3, i4, DST_DIM(2), DST_DIM(3), DST_DIM(4));
    STORE(DST, dst, DST_AT(i), (long)at);
}
