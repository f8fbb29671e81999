// Adaptive pooling, any layout: the input is cut into as many windows as the output has elements.
//
//   dst[n, c, q] = max or mean of src[n, c, floor(q * in / out) .. ceil((q + 1) * in / out) - 1]
// along each of (d, h, w).  A NaN in the window wins the maximum.
//
// Tensors: SRC and DST (n, c, d, h, w), each at *_OFFSET of its own layout.
// One work-item writes one element of dst, padding (as zero) included.  A window's sum is kept row by row, so that its
// rounding error grows with the rows and not with the elements of a global pool.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define DST_DTYPE f32
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_AT(i) PLAIN_OFFSET5(dst, i##0, i##1, i##2, i##3, i##4)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif
#ifndef POOL_MAX
#define POOL_MAX 1  // 1: maximum, 0: average
#endif

#define FIRST(q, in, out) ((idx_t)((long)(q) * (in) / (out)))
#define LAST(q, in, out) ((idx_t)((((long)(q) + 1) * (in) + (out)-1) / (out)))

__kernel void adaptive_pool_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0);
        return;
    }
    const idx_t d0 = FIRST(i2, SRC_DIM(2), DST_DIM(2)), d1 = LAST(i2, SRC_DIM(2), DST_DIM(2));
    const idx_t h0 = FIRST(i3, SRC_DIM(3), DST_DIM(3)), h1 = LAST(i3, SRC_DIM(3), DST_DIM(3));
    const idx_t w0 = FIRST(i4, SRC_DIM(4), DST_DIM(4)), w1 = LAST(i4, SRC_DIM(4), DST_DIM(4));
#if POOL_MAX
    COMPUTE_T(SRC) value = LOAD(SRC, src, SRC_OFFSET(i0, i1, d0, h0, w0));
#else
    COMPUTE_T(SRC) value = 0;
#endif
    for (idx_t d = d0; d < d1; ++d)
        for (idx_t h = h0; h < h1; ++h) {
            COMPUTE_T(SRC) row = 0;
            for (idx_t w = w0; w < w1; ++w) {
                const COMPUTE_T(SRC) x = LOAD(SRC, src, SRC_OFFSET(i0, i1, d, h, w));
#if POOL_MAX
                value = x > value || x != x ? x : value;  // a NaN replaces whatever was there
#else
                row += x;
#endif
            }
#if !POOL_MAX
            value += row;
#endif
        }
#if !POOL_MAX
    value /= (COMPUTE_T(SRC))((d1 - d0) * (h1 - h0) * (w1 - w0));
#endif
    STORE(DST, dst, DST_AT(i), value);
}
