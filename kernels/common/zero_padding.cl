// Fills the padding of a blocked tensor with zeros; its elements are left alone.
//
// One work-item for each place of DST, padding included; for kernels that do not walk memory themselves.
#include "common/tensor.clh"

#ifndef DST_DTYPE  // on its own: f32, plain (and so without padding)
#define DST_DTYPE f32
#define DST_AT(i) i##0
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) const idx_t i##0 = (place);
#endif

__kernel void zero_padding(TENSOR_OUT(DST, dst), const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) STORE(DST, dst, DST_AT(i), 0);
}
