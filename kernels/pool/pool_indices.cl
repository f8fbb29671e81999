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

#include "pool/axis.clh"

__kernel void pool_indices(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const window_arg window, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0L);
        return;
    }
    const idx_t in_d = SRC_DIM(2), in_h = SRC_DIM(3), in_w = SRC_DIM(4);
    const idx_t out_d = DST_DIM(2), out_h = DST_DIM(3), out_w = DST_DIM(4);
    const idx_t d0 = BEGIN(0, i2, in_d, out_d), count_d = COUNT(0, i2, in_d, out_d);
    const idx_t h0 = BEGIN(1, i3, in_h, out_h), count_h = COUNT(1, i3, in_h, out_h);
    const idx_t w0 = BEGIN(2, i4, in_w, out_w), count_w = COUNT(2, i4, in_w, out_w);
    float best = 0.0f;
    long at = -1;
    for (idx_t kd = 0; kd < count_d; ++kd) {
        const idx_t d = d0 + kd * STEP(0);
        if (d < 0 || d >= in_d) continue;
        for (idx_t kh = 0; kh < count_h; ++kh) {
            const idx_t h = h0 + kh * STEP(1);
            if (h < 0 || h >= in_h) continue;
            for (idx_t kw = 0; kw < count_w; ++kw) {
                const idx_t w = w0 + kw * STEP(2);
                if (w < 0 || w >= in_w) continue;
                const float x = LOAD(SRC, src, SRC_OFFSET(i0, i1, d, h, w));
                if (at < 0 || x > best || isnan(x)) {
                    best = x;
                    at = ((long)d * in_h + h) * in_w + w;
                }
            }
        }
    }
    STORE(DST, dst, DST_AT(i), at);
}
