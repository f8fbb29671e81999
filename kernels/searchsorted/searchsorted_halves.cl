// Places of values in rows that are in ascending order.
//
//   dst[j] = the first i with sequence[row, i] >= values[j]     RIGHT 1: > values[j]; n where there is none
//
// Value j is searched for in row j / count, by halves.  A NaN comes behind all elements.
// Tensors, dense: SEQUENCE (rows, n), VALUES of the same dtype and DST (s64), both of `places` elements.
// One work-item finds one place.
#include "common/tensor.clh"

#ifndef SEQUENCE_DTYPE  // on its own: f32
#define SEQUENCE_DTYPE f32
#endif
#ifndef RIGHT
#define RIGHT 0  // 1: behind equal elements
#endif

__kernel void searchsorted_halves(__global const STORAGE_T(SEQUENCE)* restrict sequence,
                                  __global const STORAGE_T(SEQUENCE)* restrict values, __global long* restrict dst,
                                  const uint n, const uint count, const uint places) {
    const uint place = (uint)get_global_id(0);
    if (place >= places) return;
    const uint row = place / count * n;
    const COMPUTE_T(SEQUENCE) value = LOAD(SEQUENCE, values, place);
    uint begin = 0, end = n;
    while (begin < end) {
        const uint middle = begin + ((end - begin) >> 1);
        const COMPUTE_T(SEQUENCE) found = LOAD(SEQUENCE, sequence, row + middle);
#if RIGHT
        const bool before = !(found > value);
#else
        const bool before = !(found >= value);
#endif
        begin = before ? middle + 1 : begin;
        end = before ? end : middle;
    }
    dst[place] = (long)begin;
}
