// Dropout by random numbers that depend on a seed and on an element's number alone, any layout.
//
//   dst[i] = u[i] < p ? 0 : src[i] / (1 - p)     limit: the least word that is kept, scale: 1 / (1 - p)
//
// with u[i] word i % 4 of Philox4x32-10 with counter i / 4 and key seed, over 2^32; i numbers the elements in the order of
// their dimensions.
//
// Tensors: SRC and DST, each in its own layout; the seed, s64.  NUMBER_OF(i) is the number of the element at i0, i1, ...
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, one dimension
#define SRC_DTYPE f32
#define SRC_AT(i) PLAIN_OFFSET1(src, i##0)
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET1(dst, i##0)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) const idx_t i##0 = (place);
#define NUMBER_OF(i) ((ulong)i##0)
#endif

__kernel void random_dropout_direct(TENSOR_IN(SRC, src), __global const long* restrict seed, TENSOR_OUT(DST, dst),
                                    const ulong limit, const float scale, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    float y = 0.0f;
    if (DST_INSIDE(i)) {
        const ulong number = NUMBER_OF(i), key = (ulong)seed[0];
        uint k0 = (uint)key, k1 = (uint)(key >> 32);
        uint c0 = (uint)(number >> 2), c1 = (uint)(number >> 34), c2 = 0, c3 = 0;
        for (int round = 0; round < 10; ++round) {
            const ulong first = (ulong)c0 * 0xD2511F53u, second = (ulong)c2 * 0xCD9E8D57u;
            c0 = (uint)(second >> 32) ^ c1 ^ k0;
            c2 = (uint)(first >> 32) ^ c3 ^ k1;
            c1 = (uint)second;
            c3 = (uint)first;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        const int word = (int)(number & 3);
        const uint u = word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
        if (u >= limit) y = LOAD(SRC, src, SRC_AT(i)) * scale;
    }
    STORE(DST, dst, DST_AT(i), y);
}
