// The channels of two tensors in turns, cut into one part or two; channels innermost, pieces of them a work-item.
//
//   z[q, 2 j] = src[q, j], z[q, 2 j + 1] = src1[q, j]
//   with BACK: z[q, j] = t[q, 2 j], z[q, channels + j] = t[q, 2 j + 1], t the channels of src, then those of src1
//   dst[q, i] = z[q, i] for i < first, dst1[q, i - first] = the rest
//
// with q the positions.  Tensors of elements of BYTES bytes, all dense (positions, channels): src and src1, dst of
// `first` channels and, with PARTS 2, dst1 of `second`.  PIECE divides the channels of src, `first` and `second`;
// `pieces` is by how many pieces of src a position goes on, `places` how many pieces there are.
//
// A work-item reads two pieces of PIECE channels, one of each source or, with BACK, two side by side of t, and writes two
// of z, STEPS times, a work-group apart, all reads on their way at a time; neighbours read and write neighbours in
// memory.
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

#ifndef BACK
#define BACK 0
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

#define LOAD_CHANNELS(y, q, i)                                             \
    if ((i) < channels) {                                                  \
        RAW_LOAD(y, src, (q) * channels + (i))                             \
    } else {                                                               \
        RAW_LOAD(y, src1, (q) * channels + (i) - channels)                 \
    }

__kernel void interleave_pieces(__global const RAW* restrict src, __global const RAW* restrict src1,
                                __global RAW* restrict dst,
#if PARTS == 2
                                __global RAW* restrict dst1,
#endif
                                const uint first, const uint second, const divisor pieces, const uint places) {
    const uint start = (uint)get_group_id(0) * (uint)get_local_size(0) * STEPS + (uint)get_local_id(0);
#if BACK
    const uint channels = pieces.by * PIECE;
#endif
    RAW one[STEPS][PIECE], other[STEPS][PIECE];
    _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
        const uint place = min(start + s * (uint)get_local_size(0), places - 1);
#if BACK
        uint q = place;
        PL_SPLIT(q, pieces, piece)
        LOAD_CHANNELS(one[s], q, piece * (2 * PIECE))
        LOAD_CHANNELS(other[s], q, piece * (2 * PIECE) + PIECE)
#else
        RAW_LOAD(one[s], src, place * PIECE)
        RAW_LOAD(other[s], src1, place * PIECE)
#endif
    }
    _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
        uint q = start + s * (uint)get_local_size(0);
        if (q >= places) continue;
        PL_SPLIT(q, pieces, piece)
        RAW low[PIECE], high[PIECE];
        _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
#if BACK
            low[k] = 2 * k < PIECE ? one[s][2 * k % PIECE] : other[s][2 * k % PIECE];
            high[k] = 2 * k + 1 < PIECE ? one[s][(2 * k + 1) % PIECE] : other[s][(2 * k + 1) % PIECE];
#else
            low[k] = k % 2 ? other[s][k / 2] : one[s][k / 2];
            high[k] = (PIECE + k) % 2 ? other[s][(PIECE + k) / 2] : one[s][(PIECE + k) / 2];
#endif
        }
#if BACK
        STORE_CHANNELS(low, q, piece * PIECE)
        STORE_CHANNELS(high, q, channels + piece * PIECE)
#else
        const uint channel = piece * (2 * PIECE);
        STORE_CHANNELS(low, q, channel)
        STORE_CHANNELS(high, q, channel + PIECE)
#endif
    }
}
