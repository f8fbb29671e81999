// A tensor repeated along its dimensions; any layouts.
//
//   dst[i, j, ...] = src[i mod SRC_DIM(0), j mod SRC_DIM(1), ...]
//
// Tensors: SRC and DST, each in its own layout.  SRC_TAKEN is the offset in SRC of dst's element i0, i1, ...
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, one dimension
#define SRC_DTYPE f32
#define SRC_TAKEN PLAIN_OFFSET1(src, i0 % PLAIN_DIM(src, 0))
#define DST_DTYPE f32
#define DST_INDICES(place, i) const idx_t i##0 = (place);
#define DST_INSIDE(i) 1
#define DST_AT(i) PLAIN_OFFSET1(dst, i##0)
#endif

__kernel void tile_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    COMPUTE_T(SRC) y = 0;
    if (DST_INSIDE(i)) y = LOAD(SRC, src, SRC_TAKEN);
    STORE(DST, dst, DST_AT(i), y);
}
