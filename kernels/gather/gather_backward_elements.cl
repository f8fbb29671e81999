// The gradient of a look-up of single elements: elements added up by index.
//
//   dst[o, r, k] = sum over j with index[o, j, k] = r of grad[o, j, k]     in the order of j
//
// Negative indices count from the end; what is out of range adds to nothing.
// Tensors, dense: GRAD and INDEX (outer, count, inner), INDEX s32 or s64, DST (outer, size, inner).
// One work-item writes one element of dst; neighbours write neighbours in memory.
#include "common/tensor.clh"

#ifndef GRAD_DTYPE  // on its own: f32
#define GRAD_DTYPE f32
#define INDEX_DTYPE s64
#define DST_DTYPE f32
#endif

__kernel void gather_backward_elements(__global const STORAGE_T(GRAD)* restrict grad,
                                       __global const STORAGE_T(INDEX)* restrict index,
                                       __global STORAGE_T(DST)* restrict dst, const idx_t count, const idx_t size,
                                       const idx_t inner, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    const idx_t k = place % inner, rest = place / inner, r = rest % size, o = rest / size;
    float sum = 0.0f;
    for (idx_t j = 0; j < count; ++j) {
        const idx_t at = (o * count + j) * inner + k;
        const long wanted = LOAD(INDEX, index, at);
        if (wanted == r || wanted + size == r) sum += LOAD(GRAD, grad, at);
    }
    STORE(DST, dst, place, sum);
}
