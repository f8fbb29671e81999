// The gradient of a look-up of whole slices: slices added up by index.
//
//   dst[o, r, k] = sum over j with index[j] = r of grad[o, j, k]
//
// Tensors, dense: GRAD (outer, indices, inner), DST (outer, size, inner); `lists`, from `from` on: the indices in order,
// with the j of each (common/sorted_list.clh).  What is out of range comes last, and adds to nothing.
// Equal indices are a run of the list, which is cut into chunks of CHUNK.  A run within a chunk is a slice of DST.  Of
// one that goes on in other chunks each chunk keeps its part in `parts`, from `parts_from` on: (outer, chunks, 2, inner)
// of f32, first what goes on from the chunk before, then what begins here.  So the work is shared out whatever the
// indices are, and sums repeat.
// Work-items take PIECE neighbours along k, those of a chunk and of an o side by side:
//   gather_backward_zeros     DST
//   gather_backward_runs      a chunk
//   gather_backward_joined    the run that begins in a chunk and goes on in the next ones, after the others
#include "common/pieces.clh"
#include "common/sorted_list.clh"

#ifndef GRAD_DTYPE  // on its own: f32
#define GRAD_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef CHUNK
#define CHUNK 32  // a multiple of STEPS
#endif
#define STEPS 4  // slices that are on their way at a time
#define PART_DTYPE f32

typedef struct {
    divisor inner, chunks;  // inner: in pieces
    uint indices, size;
} look_up;

#define EACH(e) _Pragma("unroll") for (int e = 0; e < PIECE; ++e)
#define PART(chunk, which) ((((size_t)o * of.chunks.by + (chunk)) * 2 + (which)) * of.inner.by + k) * PIECE

static inline void store_slice(__global STORAGE_T(DST)* restrict dst, const look_up of, const uint o, const uint number,
                               const uint k, const float* sum) {
    const uint r = number ^ 0x80000000u;  // LIST_KEY
    if (r < of.size) PIECE_STORE(DST, sum, dst, ((o * of.size + r) * of.inner.by + k) * PIECE)
}

__kernel void gather_backward_zeros(__global STORAGE_T(DST)* restrict dst, const uint pieces) {
    const uint place = (uint)get_global_id(0);
    float zero[PIECE];
    EACH(e) zero[e] = 0.0f;
    if (place < pieces) PIECE_STORE(DST, zero, dst, place * PIECE)
}

__kernel void gather_backward_runs(__global const STORAGE_T(GRAD)* restrict grad, __global const ulong* lists,
                                   __global STORAGE_T(DST)* restrict dst, __global float* parts, const ulong from,
                                   const ulong parts_from, const look_up of, const uint places) {
    uint rest = (uint)get_global_id(0);
    if (rest >= places) return;
    PL_SPLIT(rest, of.inner, k)
    PL_SPLIT(rest, of.chunks, c)
    const uint o = rest, begin = c * CHUNK, end = min(begin + CHUNK, of.indices);
    __global const ulong* list = lists + from;
    parts += parts_from;
    uint number = (uint)(list[begin] >> 32);
    bool goes_on = c > 0 && (uint)(list[begin - 1] >> 32) == number;
    float sum[PIECE];
    EACH(e) sum[e] = 0.0f;
    for (uint first = begin; first < end; first += STEPS) {
        ulong next[STEPS];
        float slice[STEPS][PIECE];
        _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
            next[s] = list[min(first + s, end - 1)];
            PIECE_LOAD(GRAD, slice[s], grad, ((o * of.indices + (uint)next[s]) * of.inner.by + k) * PIECE)
        }
        _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
            if (first + s >= end) break;
            if ((uint)(next[s] >> 32) != number) {
                if (goes_on)
                    PIECE_STORE(PART, sum, parts, PART(c, 0))
                else
                    store_slice(dst, of, o, number, k, sum);
                EACH(e) sum[e] = 0.0f;
                number = (uint)(next[s] >> 32);
                goes_on = false;
            }
            EACH(e) sum[e] += slice[s][e];
        }
    }
    if (goes_on)
        PIECE_STORE(PART, sum, parts, PART(c, 0))
    else if (end < of.indices && (uint)(list[end] >> 32) == number)
        PIECE_STORE(PART, sum, parts, PART(c, 1))
    else
        store_slice(dst, of, o, number, k, sum);
}

__kernel void gather_backward_joined(__global const ulong* lists, __global STORAGE_T(DST)* restrict dst,
                                     __global const float* parts, const ulong from, const ulong parts_from,
                                     const look_up of, const uint places) {
    uint rest = (uint)get_global_id(0);
    if (rest >= places) return;
    PL_SPLIT(rest, of.inner, k)
    PL_SPLIT(rest, of.chunks, c)
    const uint o = rest, begin = c * CHUNK, end = begin + CHUNK;
    __global const ulong* list = lists + from;
    parts += parts_from;
    if (end >= of.indices) return;
    const uint number = (uint)(list[end] >> 32);
    if ((uint)(list[end - 1] >> 32) != number) return;
    if (c > 0 && (uint)(list[begin - 1] >> 32) == number) return;  // it began before
    float sum[PIECE], part[PIECE];
    PIECE_LOAD(PART, sum, parts, PART(c, 1))
    for (uint next = c + 1; next * CHUNK < of.indices && (uint)(list[next * CHUNK] >> 32) == number; ++next) {
        PIECE_LOAD(PART, part, parts, PART(next, 0))
        EACH(e) sum[e] += part[e];
    }
    store_slice(dst, of, o, number, k, sum);
}
