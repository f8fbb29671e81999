// The slices that indices name, as numbers.
//
//   dst[row, j] = sum over d of index[o, j, k, d] * steps[d] for row = o * inner + k
//
// Negative indices count from the end.  Where one is out of range, the number is the largest there is: no slice has it.
// Tensors, dense: INDEX (outer, count, inner, DEPTH), s32 or s64; dst (outer * inner, count), of s32.
// One work-item writes one number.
#include "common/tensor.clh"

#ifndef DEPTH
#define DEPTH 1  // dimensions that are indexed: 1 ... 8
#endif
#ifndef INDEX_DTYPE  // on its own: s64
#define INDEX_DTYPE s64
#endif

typedef struct {
    int size[DEPTH], step[DEPTH];
} indexed_t;

__kernel void scatter_places(__global const STORAGE_T(INDEX)* restrict index, __global int* restrict dst,
                             const ulong first, const uint count, const uint inner, const uint numbers,
                             const indexed_t indexed) {
    const uint number = (uint)get_global_id(0);
    if (number >= numbers) return;
    const uint row = number / count, j = number - row * count, outer = row / inner, k = row - outer * inner;
    const size_t at = (((size_t)outer * count + j) * inner + k) * DEPTH;
    int place = 0, inside = 1;
    for (int d = 0; d < DEPTH; ++d) {
        long wanted = LOAD(INDEX, index, at + d);
        if (wanted < 0) wanted += indexed.size[d];
        inside &= wanted >= 0 && wanted < indexed.size[d];
        place += (int)wanted * indexed.step[d];
    }
    dst[first + number] = inside ? place : 0x7fffffff;
}
