// A part of the channels of two tensors in turns; any layouts.
//
//   dst[n, i, ...] = z[n, first + i, ...]   where z[n, j * groups + g, ...] = t[n, g * each + j, ...]
//
// with t the `channels` channels of src, then those of src1, in `groups` groups of `each`: with two groups src and src1
// take turns.  Tensors: SRC, SRC1 and DST, each in its own layout.  SRC_CHANNEL(j) and SRC1_CHANNEL(j) are the offsets of
// dst's element i0, i1, ... with channel j in place of i1.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, two dimensions
#define SRC_DTYPE f32
#define SRC_CHANNEL(j) PLAIN_OFFSET2(src, i0, j)
#define SRC1_DTYPE f32
#define SRC1_CHANNEL(j) PLAIN_OFFSET2(src1, i0, j)
#define DST_DTYPE f32
#define DST_INDICES(place, i) const idx_t i##0 = (place) / PLAIN_DIM(dst, 1), i##1 = (place) % PLAIN_DIM(dst, 1);
#define DST_INSIDE(i) 1
#define DST_AT(i) PLAIN_OFFSET2(dst, i##0, i##1)
#endif

__kernel void interleave_direct(TENSOR_IN(SRC, src), TENSOR_IN(SRC1, src1), TENSOR_OUT(DST, dst), const idx_t first,
                                const idx_t channels, const idx_t groups, const idx_t each, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    COMPUTE_T(SRC) y = 0;
    if (DST_INSIDE(i)) {
        const idx_t from = (first + i1) % groups * each + (first + i1) / groups;
        if (from < channels)
            y = LOAD(SRC, src, SRC_CHANNEL(from));
        else
            y = LOAD(SRC1, src1, SRC1_CHANNEL(from - channels));
    }
    STORE(DST, dst, DST_AT(i), y);
}
