// The weights of a transposed convolution as those of the convolutions that it is, one for each phase.
//
// Output position q takes the taps k with (q + begin - k) % stride == 0: q's phase has the taps k0, k0 + stride, ..., which
// the convolution of that phase has in reverse.  With J(k0) = ceil((size - k0) / stride) along each axis:
//   dst[phase k0][o, j, i] = wei[g * ic + i, o % oc_per_group, k],   k = k0 + (J(k0) - 1 - j) * stride, g = o / oc_per_group
// Phases are in the order of (k0 of d, k0 of h, k0 of w), each dense: o, d, h, w, then IC_PADDED input channels of a
// group, zeros behind the last one.  With ROUND numbers are rounded to the nearest tf32.
//
// Tensors: WEI (c, oc_per_group, kd, kh, kw), at *_OFFSET of its own layout; DST from element `from` on.
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

// Taps of the phase of tap k along one axis; of all phases before it; where tap k lies within its own.
static inline int pl_taps(int k, int size, int stride) { return (size - k % stride + stride - 1) / stride; }
static inline int pl_taps_before(int k, int size, int stride) {
    int before = 0;
    for (int p = 0; p < k % stride; ++p) before += pl_taps(p, size, stride);
    return before;
}
static inline int pl_turned(int k, int size, int stride) { return pl_taps(k, size, stride) - 1 - k / stride; }
#define OF_AXIS(function, k, axis) function(k, window.size[axis], window.stride[axis])

__kernel void conv_turn_weights(TENSOR_IN(WEI, wei), __global STORAGE_T(DST)* restrict dst, const window_arg window,
                                const int ic_per_group, const int ic_padded, const int oc_per_group, const int oc,
                                const int from) {
    const int i = (int)get_global_id(0), k = (int)get_global_id(1), o = (int)get_global_id(2);
    const int lines = k / window.size[2], kd = lines / window.size[1], kh = lines % window.size[1],
              kw = k % window.size[2];
    if (i >= ic_padded || kd >= window.size[0] || o >= oc) return;
    const int taps_d = OF_AXIS(pl_taps, kd, 0), taps_h = OF_AXIS(pl_taps, kh, 1), taps_w = OF_AXIS(pl_taps, kw, 2);
    const int before = (OF_AXIS(pl_taps_before, kd, 0) * window.size[1] + taps_d * OF_AXIS(pl_taps_before, kh, 1)) *
                           window.size[2] +
                       taps_d * taps_h * OF_AXIS(pl_taps_before, kw, 2);
    const int tap = (OF_AXIS(pl_turned, kd, 0) * taps_h + OF_AXIS(pl_turned, kh, 1)) * taps_w +
                    OF_AXIS(pl_turned, kw, 2);
    float value = 0.0f;
    if (i < ic_per_group)
        value = LOAD(WEI, wei, WEI_OFFSET((idx_t)(o / oc_per_group) * ic_per_group + i, o % oc_per_group, kd, kh, kw));
#if ROUND
    value = nearest_tf32(value);
#endif
    STORE(DST, dst, from + ((idx_t)before * oc + (idx_t)o * (taps_d * taps_h * taps_w) + tap) * ic_padded + i, value);
}
