// The weights of a transposed convolution as those of the convolutions that it is, one for each phase.
//
// Output position q takes the taps k with (q + begin - k) % stride == 0: q's phase has the taps k0, k0 + stride, ..., which
// the convolution of that phase has in reverse.  With J(k0) = ceil((size - k0) / stride) along each axis:
//   dst[phase k0][o, j, i] = wei[g * ic + i, o % oc_per_group, k],   k = k0 + (J(k0) - 1 - j) * stride, g = o / oc_per_group
// Phases are in the order of (k0 of h, k0 of w), each dense: o, h, w, then IC_PADDED input channels of a group, zeros
// behind the last one.  With ROUND numbers are rounded to the nearest tf32.
//
// Tensors: WEI (c, oc_per_group, 1, kh, kw), at *_OFFSET of its own layout; DST from element `from` on.
// One work-item makes one element; global ids: i, k, o.
#include "common/tensor.clh"
#include "common/tf32.clh"
#include "common/window.clh"

#ifndef WEI_DTYPE  // on its own: f32, plain
#define WEI_DTYPE f32
#define WEI_OFFSET(i, o, d, h, w) PLAIN_OFFSET5(wei, i, o, d, h, w)
#define DST_DTYPE f32
#endif
#ifndef ROUND
#define ROUND 0  // 1: to tf32: 0, 1
#endif

#define TAPS_OF(k0, size, stride) (((size) - (k0) + (stride)-1) / (stride))

__kernel void conv_turn_weights(TENSOR_IN(WEI, wei), __global STORAGE_T(DST)* restrict dst, const window_arg window,
                                const int ic_per_group, const int ic_padded, const int oc_per_group, const int oc,
                                const int from) {
    const int i = (int)get_global_id(0), k = (int)get_global_id(1), o = (int)get_global_id(2);
    const int kh = k / window.size[2], kw = k % window.size[2];
    if (i >= ic_padded || kh >= window.size[1] || o >= oc) return;
    const int h0 = kh % window.stride[1], w0 = kw % window.stride[2];
    const int taps_h = TAPS_OF(h0, window.size[1], window.stride[1]);
    const int taps_w = TAPS_OF(w0, window.size[2], window.stride[2]);
    int before_h = 0, before_w = 0;  // taps of phases before this one along each axis
    for (int p = 0; p < h0; ++p) before_h += TAPS_OF(p, window.size[1], window.stride[1]);
    for (int p = 0; p < w0; ++p) before_w += TAPS_OF(p, window.size[2], window.stride[2]);
    const int before = before_h * window.size[2] + taps_h * before_w;
    const int jh = taps_h - 1 - kh / window.stride[1], jw = taps_w - 1 - kw / window.stride[2];
    float value = 0.0f;
    if (i < ic_per_group)
        value = LOAD(WEI, wei, WEI_OFFSET((idx_t)(o / oc_per_group) * ic_per_group + i, o % oc_per_group, 0, kh, kw));
#if ROUND
    value = nearest_tf32(value);
#endif
    STORE(DST, dst, from + ((idx_t)before * oc + ((idx_t)o * taps_h + jh) * taps_w + jw) * ic_padded + i, value);
}
