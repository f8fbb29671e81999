// Images read at places between pixels, any layouts.
//
//   dst[n, c, p] = sum over the pixels q of place p of their weight * src[n, c, q]
//
// with the pixels and weights of grid_sample/axis.clh.
// Tensors: SRC and DST (n, c, d, h, w), each at *_OFFSET of its own layout; grid, f32, dense: (n, d, h, w, SPATIAL) of
// DST's sizes, the last number of a place along d.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "grid_sample/axis.clh"

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

__kernel void grid_sample_direct(TENSOR_IN(SRC, src), __global const float* restrict grid, TENSOR_OUT(DST, dst),
                                 const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    float y = 0.0f;
    if (DST_INSIDE(i)) {
        const idx_t at = (((i0 * DST_DIM(2) + i2) * DST_DIM(3) + i3) * DST_DIM(4) + i4) * SPATIAL;
        AXES_OF_PLACE(grid, at, SRC_DIM(2), SRC_DIM(3), SRC_DIM(4))
        EACH_PIXEL(kd, kh, kw) {
            const float x = LOAD(SRC, src, SRC_OFFSET(i0, i1, d.pixel[kd], h.pixel[kh], w.pixel[kw]));
            y += d.weight[kd] * h.weight[kh] * w.weight[kw] * x;
        }
    }
    STORE(DST, dst, DST_AT(i), y);
}
