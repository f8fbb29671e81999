// Convolution, any layouts, any geometry: the kernel that is there when no other one is.
//
//   dst[n, o, q] = activation(sum over i, k of src[n, g * ic + i, q * stride - begin + k * dilation] * wei[o, i, k]
//                             + bias[o] + res[n, o, q])
// with g = o / oc_per_group, ic = WEI_DIM(1) the channels of a group; q, k positions in (d, h, w); src is zero outside.
//
// Tensors: SRC (n, c, d, h, w), WEI (oc, ic, kd, kh, kw), DST (n, oc, d, h, w), BIAS (oc), RES as DST; each at
// *_OFFSET of its own layout.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
// The sum is kept in f32, in the order of kd, kh, kw, i.
#include "common/epilogue.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define WEI_DTYPE f32
#define WEI_OFFSET(o, i, d, h, w) PLAIN_OFFSET5(wei, o, i, d, h, w)
#define WEI_DIM(i) PLAIN_DIM(wei, i)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif

__kernel void conv_fwd_direct(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                              const window_arg window, const idx_t oc_per_group, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    const idx_t to = DST_OFFSET(i0, i1, i2, i3, i4);
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, to, 0);
        return;
    }
    const idx_t ic = WEI_DIM(1), c0 = i1 / oc_per_group * ic;
    const idx_t d0 = i2 * window.stride[0] - window.begin[0];
    const idx_t h0 = i3 * window.stride[1] - window.begin[1];
    const idx_t w0 = i4 * window.stride[2] - window.begin[2];
    float sum = 0.0f;
    for (int kd = 0; kd < window.size[0]; ++kd) {
        const idx_t d = d0 + kd * (idx_t)window.dilation[0];
        if (d < 0 || d >= SRC_DIM(2)) continue;
        for (int kh = 0; kh < window.size[1]; ++kh) {
            const idx_t h = h0 + kh * (idx_t)window.dilation[1];
            if (h < 0 || h >= SRC_DIM(3)) continue;
            for (int kw = 0; kw < window.size[2]; ++kw) {
                const idx_t w = w0 + kw * (idx_t)window.dilation[2];
                if (w < 0 || w >= SRC_DIM(4)) continue;
                for (idx_t i = 0; i < ic; ++i)
                    sum += LOAD(SRC, src, SRC_OFFSET(i0, c0 + i, d, h, w)) *
                           LOAD(WEI, wei, WEI_OFFSET(i1, i, kd, kh, kw));
            }
        }
    }
    const float y = EPILOGUE(sum, i1, RES_OFFSET(i0, i1, i2, i3, i4));
    STORE(DST, dst, to, y);
}
