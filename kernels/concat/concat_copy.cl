// One input of a concatenation copied to its place in the output, any layouts.
//
//   dst[..., i + shift, ...] = src[..., i, ...]        i along the dimension of the concatenation
//
// Tensors: SRC and DST, each in its own layout.  DST_SHIFTED is the offset in DST of the element i0, i1, ... of SRC.
// One work-item copies one element of src; neighbours read neighbours in memory.  Padding of DST is left alone: the
// library fills it with zeros.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, one dimension
#define SRC_DTYPE f32
#define SRC_INDICES(place, i) const idx_t i##0 = (place);
#define SRC_INSIDE(i) 1
#define SRC_AT(i) PLAIN_OFFSET1(src, i##0)
#define DST_DTYPE f32
#define DST_SHIFTED PLAIN_OFFSET1(dst, i0 + shift)
#endif

__kernel void concat_copy(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t shift, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    SRC_INDICES(place, i)
    if (SRC_INSIDE(i)) STORE(DST, dst, DST_SHIFTED, LOAD(SRC, src, SRC_AT(i)));
}
