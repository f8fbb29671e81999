// The gradient of a look-up of whole slices: slices added up by index.
//
//   dst[o, r, k] = sum over j with index[j] = r of grad[o, j, k]     in the order of j
//
// Negative indices count from the end; what is out of range adds to nothing.
// Tensors, dense: GRAD (outer, indices, inner), INDEX (indices), s32 or s64, DST (outer, size, inner).
// A work-group makes LANES neighbours along k of one o and r.  Its work-items look at LANES indices at a time, each at
// one, and note those that are r as bits; then each adds what these name, in their order.
// Group ids: along k, r, o.
#include "common/tensor.clh"

#ifndef GRAD_DTYPE  // on its own: f32
#define GRAD_DTYPE f32
#define INDEX_DTYPE s64
#define DST_DTYPE f32
#endif
#ifndef LANES
#define LANES 64  // work-items, a multiple of 32: 32 to 256
#endif

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void gather_backward_slices(__global const STORAGE_T(GRAD)* restrict grad,
                            __global const STORAGE_T(INDEX)* restrict index, __global STORAGE_T(DST)* restrict dst,
                            const idx_t indices, const idx_t size, const idx_t inner) {
    __local uint found[LANES / 32];
    const uint place = (uint)get_local_id(0);  // unsigned where it is divided: providers/opencl/runtime/faults.cpp
    const int lane = (int)place;
    const idx_t k = (idx_t)get_group_id(0) * LANES + lane, r = (idx_t)get_group_id(1), o = (idx_t)get_group_id(2);
    float sum = 0.0f;
    for (idx_t first = 0; first < indices; first += LANES) {
        if (lane < LANES / 32) found[lane] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (first + lane < indices) {
            const long wanted = LOAD(INDEX, index, first + lane);
            if (wanted == r || wanted + size == r) atomic_or(&found[place / 32], 1u << (place % 32));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int word = 0; word < LANES / 32; ++word) {
            uint bits = found[word];
            while (bits) {
                const int bit = 31 - (int)clz(bits & (0u - bits));
                bits &= bits - 1;
                if (k < inner) sum += LOAD(GRAD, grad, (o * indices + first + word * 32 + bit) * inner + k);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (k < inner) STORE(DST, dst, (o * size + r) * inner + k, sum);
}
