// Transposed convolution, any layouts, any geometry.
//
//   dst[n, o, q] = activation(sum over i, k of src[n, g * ic + i, p] * wei[g * ic + i, o % oc_per_group, k] + bias[o])
// over those p and k with q = p * stride - begin + k * dilation; g = o / oc_per_group; q, p, k are positions in
// (d, h, w).  So each output gathers what reaches it: no atomics, one order of summation.
//
// Tensors: SRC (n, c, d, h, w), WEI (c, oc_per_group, kd, kh, kw), DST (n, oc, d, h, w), BIAS (oc); each at *_OFFSET of
// its own layout.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/epilogue.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define WEI_DTYPE f32
#define WEI_OFFSET(i, o, d, h, w) PLAIN_OFFSET5(wei, i, o, d, h, w)
#define WEI_DIM(i) PLAIN_DIM(wei, i)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif

__kernel void conv_transpose_direct(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei),
                                    TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS, const window_arg window,
                                    const idx_t ic_per_group, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    const idx_t to = DST_OFFSET(i0, i1, i2, i3, i4);
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, to, 0);
        return;
    }
    const idx_t oc = WEI_DIM(1), o = i1 % oc, c0 = i1 / oc * ic_per_group;
    float sum = 0.0f;
    for (int kd = 0; kd < window.size[0]; ++kd) {
        const idx_t ds = i2 + window.begin[0] - kd * (idx_t)window.dilation[0];  // d * stride
        const idx_t d = ds / window.stride[0];
        if (ds < 0 || d * window.stride[0] != ds || d >= SRC_DIM(2)) continue;
        for (int kh = 0; kh < window.size[1]; ++kh) {
            const idx_t hs = i3 + window.begin[1] - kh * (idx_t)window.dilation[1];
            const idx_t h = hs / window.stride[1];
            if (hs < 0 || h * window.stride[1] != hs || h >= SRC_DIM(3)) continue;
            for (int kw = 0; kw < window.size[2]; ++kw) {
                const idx_t ws = i4 + window.begin[2] - kw * (idx_t)window.dilation[2];
                const idx_t w = ws / window.stride[2];
                if (ws < 0 || w * window.stride[2] != ws || w >= SRC_DIM(4)) continue;
                for (idx_t i = 0; i < ic_per_group; ++i)
                    sum += LOAD(SRC, src, SRC_OFFSET(i0, c0 + i, d, h, w)) *
                           LOAD(WEI, wei, WEI_OFFSET(c0 + i, o, kd, kh, kw));
            }
        }
    }
    const float y = EPILOGUE(sum, i1, RES_OFFSET(i0, i1, i2, i3, i4));
    STORE(DST, dst, to, y);
}
