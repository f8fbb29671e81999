// Whole slices of a tensor along one dimension, chosen by index, a piece of a slice an access.
//
//   dst[i..., j..., k...] = src[i..., index[j...], k...]
//
// Negative indices count from the end; where one is out of range, zero is written.
// Tensors: SRC and DST of elements of BYTES bytes, INDEX (s32 or s64), each in its own layout, but what lies side by side
// in DST does so in SRC, and PIECE divides how many there are.  In terms of dst's i0, i1, ...: INDEX_TAKEN(i) is the
// offset in INDEX of the index to use, SRC_TAKEN(i) the offset in SRC with the chosen index `picked`; SRC_SIZE is the
// number of elements to choose from.
// A work-item takes STEPS pieces, a work-group apart, all on their way at a time; neighbours write neighbours in memory.
#ifndef BYTES
#define BYTES 4  // of an element: 1, 2, 4, 8
#endif
#include "common/pieces.clh"

#ifndef STEPS
#define STEPS 2  // pieces a work-item: 1, 2, 4
#endif

#ifndef DST_DTYPE  // on its own: plain, one dimension of pieces
#define SRC_SIZE PLAIN_DIM(src, 0)
#define SRC_TAKEN(i) (picked * PIECE)
#define INDEX_DTYPE s64
#define INDEX_TAKEN(i) PLAIN_OFFSET1(index, i##0)
#define DST_INDICES(place, i) const idx_t i##0 = (place) / PIECE;
#endif

__kernel void gather_pieces(__global const RAW* restrict src, const tensor_arg src_arg, TENSOR_IN(INDEX, index),
                            __global RAW* restrict dst, const tensor_arg dst_arg, const idx_t places) {
    const idx_t step = (idx_t)get_local_size(0) * PIECE;
    const idx_t first = (idx_t)get_group_id(0) * step * STEPS + (idx_t)get_local_id(0) * PIECE;
    RAW y[STEPS][PIECE];
    _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
        const idx_t place = first + s * step;
        _Pragma("unroll") for (int k = 0; k < PIECE; ++k) y[s][k] = 0;
        if (place >= places) continue;
        DST_INDICES(place, i)
        const long size = SRC_SIZE;
        long wanted = LOAD(INDEX, index, INDEX_TAKEN(i));
        if (wanted < 0) wanted += size;
        if (wanted >= 0 && wanted < size) {
            const idx_t picked = (idx_t)wanted;
            const idx_t from = SRC_TAKEN(i);
            RAW_LOAD(y[s], src, from)
        }
    }
    _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
        const idx_t place = first + s * step;
        if (place >= places) continue;
        RAW_STORE(y[s], dst, place)
    }
}
