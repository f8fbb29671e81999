// Channels of several groups, taken in turns; any layouts.
//
//   dst[n, j * groups + g, ...] = src[n, g * each + j, ...]   with each = c / groups
//
// Tensors: SRC and DST, each in its own layout.  SRC_CHANNEL(j) is the offset in SRC of dst's element i0, i1, ... with
// channel j in place of i1.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, two dimensions
#define SRC_DTYPE f32
#define SRC_CHANNEL(j) PLAIN_OFFSET2(src, i0, j)
#define DST_DTYPE f32
#define DST_INDICES(place, i) const idx_t i##0 = (place) / PLAIN_DIM(dst, 1), i##1 = (place) % PLAIN_DIM(dst, 1);
#define DST_INSIDE(i) 1
#define DST_AT(i) PLAIN_OFFSET2(dst, i##0, i##1)
#endif

__kernel void channel_shuffle_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t groups, const idx_t each,
                                     const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    COMPUTE_T(SRC) y = 0;
    if (DST_INSIDE(i)) y = LOAD(SRC, src, SRC_CHANNEL(i1 % groups * each + i1 / groups));
    STORE(DST, dst, DST_AT(i), y);
}
