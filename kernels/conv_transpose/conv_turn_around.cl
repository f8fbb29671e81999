// The weights of a transposed convolution of stride 1 as those of the convolution that it is, in any layout.
//
//   dst[o, i, k] = wei[g * ic + i, o % oc_per_group, size - 1 - k] with g = o / oc_per_group
//
// Tensors: WEI (c, oc_per_group, kd, kh, kw) and DST (oc, ic, kd, kh, kw), each at *_OFFSET of its own layout.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"

#ifndef WEI_DTYPE  // on its own: f32, plain
#define WEI_DTYPE f32
#define WEI_OFFSET(i, o, d, h, w) PLAIN_OFFSET5(wei, i, o, d, h, w)
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET5(dst, i##0, i##1, i##2, i##3, i##4)
#define DST_INSIDE(i) 1
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif

__kernel void conv_turn_around(TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst), const idx_t oc_per_group,
                               const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    float value = 0.0f;
    if (DST_INSIDE(i))
        value = LOAD(WEI, wei, WEI_OFFSET(i0 / oc_per_group * DST_DIM(1) + i1, i0 % oc_per_group, DST_DIM(2) - 1 - i2,
                                          DST_DIM(3) - 1 - i3, DST_DIM(4) - 1 - i4));
    STORE(DST, dst, DST_AT(i), value);
}
