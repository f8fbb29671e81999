// Borders added to a tensor or cut from it, any layouts.
//
//   dst[i] = src[i - begin] where that exists; elsewhere the value (PAD_MODE 0), the mirror image about the first or
//            last element (1) or the nearest element (2), along each dimension
//
// Tensors: SRC and DST, each in its own layout.  In terms of i0, i1, ...: PADDED_AT is the offset in SRC of the element
// at PAD_SOURCE(i0, 0), PAD_SOURCE(i1, 1), ...; PADDED_INSIDE says whether PAD_EXISTS(i0, 0) and so on.
// One work-item writes one element of dst, padding of the layout (as zero) included; neighbours write neighbours in
// memory.  Assumes that reflections stay inside of src: begins and ends are smaller than its sizes.
#include "common/tensor.clh"
#include "pad/source.clh"

#define PAD_EXISTS(i, d) ((i) >= (idx_t)pad.begin[d] && (i) - (idx_t)pad.begin[d] < SRC_DIM(d))

#ifndef SRC_DTYPE  // on its own: f32, plain, one dimension
#define SRC_DTYPE f32
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define PADDED_AT PLAIN_OFFSET1(src, PAD_SOURCE(i0, 0))
#define PADDED_INSIDE PAD_EXISTS(i0, 0)
#define DST_DTYPE f32
#define DST_INDICES(place, i) const idx_t i##0 = (place);
#define DST_INSIDE(i) 1
#define DST_AT(i) PLAIN_OFFSET1(dst, i##0)
#endif

__kernel void pad_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const pad_arg pad, const COMPUTE_T(SRC) value,
                         const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    COMPUTE_T(SRC) y = 0;
    if (DST_INSIDE(i)) {
#if PAD_MODE == 0
        y = value;
        if (PADDED_INSIDE)
#endif
            y = LOAD(SRC, src, PADDED_AT);
    }
    STORE(DST, dst, DST_AT(i), y);
}
