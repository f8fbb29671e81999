// The channels of two tensors in turns, cut into one part or two; channels innermost, pieces of them a work-item.
//
//   z[q, 2 j] = src[q, j], z[q, 2 j + 1] = src1[q, j]
//   dst[q, i] = z[q, i] for i < first, dst1[q, i - first] = the rest
//
// with q the positions.  Tensors of elements of BYTES bytes, all dense (positions, channels): src and src1, dst of
// `first` channels and, with PARTS 2, dst1 of `second`.  PIECE divides the channels of src, `first` and `second`;
// `pieces` is by how many pieces of src a position goes on, `places` how many pieces there are.
//
// A work-item reads PIECE channels of each source and writes twice as many, in two pieces, STEPS times, a work-group
// apart, all reads on their way at a time; neighbours read and write neighbours in memory.
#ifndef BYTES
#define BYTES 4  // of an element: 1, 2, 4, 8
#endif
#include "common/pieces.clh"

#ifndef STEPS
#define STEPS 2  // pieces of each source a work-item: 1, 2, 4
#endif
#ifndef PARTS
#define PARTS 2  // results: 1, 2
#endif

#if PARTS == 2
#define STORE_CHANNELS(y, q, i)                                       \
    if ((i) < first) {                                                \
        RAW_STORE(y, dst, (q) * first + (i))                          \
    } else {                                                          \
        RAW_STORE(y, dst1, (q) * second + (i) - first)                \
    }
#else
#define STORE_CHANNELS(y, q, i) RAW_STORE(y, dst, (q) * first + (i))
#endif

__kernel void interleave_pieces(__global const RAW* restrict src, __global const RAW* restrict src1,
                                __global RAW* restrict dst,
#if PARTS == 2
                                __global RAW* restrict dst1,
#endif
                                const uint first, const uint second, const divisor pieces, const uint places) {
    const uint start = (uint)get_group_id(0) * (uint)get_local_size(0) * STEPS + (uint)get_local_id(0);
    RAW even[STEPS][PIECE], odd[STEPS][PIECE];
    _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
        const uint place = min(start + s * (uint)get_local_size(0), places - 1);
        RAW_LOAD(even[s], src, place * PIECE)
        RAW_LOAD(odd[s], src1, place * PIECE)
    }
    _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
        uint q = start + s * (uint)get_local_size(0);
        if (q >= places) continue;
        PL_SPLIT(q, pieces, piece)
        RAW low[PIECE], high[PIECE];
        _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
            low[k] = k % 2 ? odd[s][k / 2] : even[s][k / 2];
            high[k] = (PIECE + k) % 2 ? odd[s][(PIECE + k) / 2] : even[s][(PIECE + k) / 2];
        }
        const uint channel = piece * (2 * PIECE);
        STORE_CHANNELS(low, q, channel)
        STORE_CHANNELS(high, q, channel + PIECE)
    }
}
