// Images resized by nearest or linear interpolation, any layouts.
//
//   nearest:  dst[n, c, q] = src[n, c, min(floor(q * scale), in - 1)]
//   linear:   dst[n, c, q] = the weighted mean of the two neighbours of s = max((q + 1/2) * scale - 1/2, 0), with
//             ALIGN_CORNERS s = q * scale, along each of the SPATIAL last dimensions
// Positions are computed in float, without fused multiply-add, so that they are those of torch.
//
// Tensors: SRC and DST (n, c, d, h, w), each at *_OFFSET of its own layout.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "resize/positions.clh"

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
__kernel void resize_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const float scale_d, const float scale_h,
                            const float scale_w, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0);
        return;
    }
#if LINEAR
    const neighbours w = neighbours_of(i4, scale_w, SRC_DIM(4), DST_DIM(4));
#if SPATIAL > 1
    const neighbours h = neighbours_of(i3, scale_h, SRC_DIM(3), DST_DIM(3));
#else
    const neighbours h = {{0, 0}, {1.0f, 0.0f}};
#endif
#if SPATIAL > 2
    const neighbours d = neighbours_of(i2, scale_d, SRC_DIM(2), DST_DIM(2));
#else
    const neighbours d = {{0, 0}, {1.0f, 0.0f}};
#endif
    float y = 0.0f;
    for (int a = 0; a < (SPATIAL > 2 ? 2 : 1); ++a) {
        float plane = 0.0f;
        for (int b = 0; b < (SPATIAL > 1 ? 2 : 1); ++b) {
            const float row = LOAD(SRC, src, SRC_OFFSET(i0, i1, d.place[a], h.place[b], w.place[0])) * w.weight[0] +
                              LOAD(SRC, src, SRC_OFFSET(i0, i1, d.place[a], h.place[b], w.place[1])) * w.weight[1];
            plane += row * h.weight[b];
        }
        y += plane * d.weight[a];
    }
#else
    const idx_t w = nearest(i4, scale_w, SRC_DIM(4));
    const idx_t h = SPATIAL > 1 ? nearest(i3, scale_h, SRC_DIM(3)) : 0;
    const idx_t d = SPATIAL > 2 ? nearest(i2, scale_d, SRC_DIM(2)) : 0;
    const COMPUTE_T(SRC) y = LOAD(SRC, src, SRC_OFFSET(i0, i1, d, h, w));
#endif
    STORE(DST, dst, DST_AT(i), y);
}
