// Reorder of any layout and dtype to any other:  dst[i] = convert(src[i]) for every index i, 0 in dst's padding.
//
// One work-item writes one element of dst; neighbours write neighbours in memory.  src may be strided.
// From floats to integers: to the nearest, halves to even, limited to the range.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, NCHW to NCHW
#define SRC_DTYPE f32
#define SRC_AT(i) PLAIN_OFFSET4(src, i##0, i##1, i##2, i##3)
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET4(dst, i##0, i##1, i##2, i##3)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i)                                                                        \
    const idx_t i##3 = (place) % PLAIN_DIM(dst, 3), i##2 = (place) / PLAIN_DIM(dst, 3) % PLAIN_DIM(dst, 2); \
    const idx_t i##_outer = (place) / PLAIN_DIM(dst, 3) / PLAIN_DIM(dst, 2);                         \
    const idx_t i##1 = i##_outer % PLAIN_DIM(dst, 1), i##0 = i##_outer / PLAIN_DIM(dst, 1);
#endif

__kernel void reorder_any(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    const idx_t to = DST_AT(i);
    if (DST_INSIDE(i)) {
        const COMPUTE_T(SRC) value = LOAD(SRC, src, SRC_AT(i));
        STORE(DST, dst, to, value);
    } else {
        STORE(DST, dst, to, 0);
    }
}
