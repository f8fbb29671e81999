// Elements of a tensor along one dimension, chosen by index; any layouts.
//
//   dst[i..., j..., k...] = src[i..., index[j...], k...]   gather: whole slices
//   dst[i, j, k] = src[i, index[i, j, k], k]               gather_elements
//
// Negative indices count from the end; where one is out of range, zero is written.
// Tensors: SRC, INDEX (s32 or s64) and DST, each in its own layout.  In terms of dst's i0, i1, ...: INDEX_TAKEN is the
// offset in INDEX of the index to use, SRC_TAKEN the offset in SRC with the chosen index `picked`; SRC_SIZE is the
// number of elements to choose from.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, one dimension
#define SRC_DTYPE f32
#define SRC_SIZE PLAIN_DIM(src, 0)
#define SRC_TAKEN PLAIN_OFFSET1(src, picked)
#define INDEX_DTYPE s64
#define INDEX_TAKEN PLAIN_OFFSET1(index, i0)
#define DST_DTYPE f32
#define DST_INDICES(place, i) const idx_t i##0 = (place);
#define DST_INSIDE(i) 1
#define DST_AT(i) PLAIN_OFFSET1(dst, i##0)
#endif

__kernel void gather_direct(TENSOR_IN(SRC, src), TENSOR_IN(INDEX, index), TENSOR_OUT(DST, dst), const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    COMPUTE_T(SRC) y = 0;
    if (DST_INSIDE(i)) {
        const long size = SRC_SIZE;
        long wanted = LOAD(INDEX, index, INDEX_TAKEN);
        if (wanted < 0) wanted += size;
        if (wanted >= 0 && wanted < size) {
            const idx_t picked = (idx_t)wanted;
            y = LOAD(SRC, src, SRC_TAKEN);
        }
    }
    STORE(DST, dst, DST_AT(i), y);
}
