// Dropout by random numbers that depend on a seed and on an element's number alone, any layout.
//
//   dst[i] = u[i] < p ? 0 : src[i] / (1 - p)     limit: the least word that is kept, scale: 1 / (1 - p)
//
// with u[i] word i % 4 of Philox4x32-10 with counter c + i / 4 and key k, over 2^32; k is the first element of seed, c the
// second, or 0; i numbers the elements in the order of their dimensions.
//
// Tensors: SRC and DST, each in its own layout; the seed, s64.  NUMBER_OF(i) is the number of the element at i0, i1, ...
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "common/philox.clh"

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
        const ulong number = NUMBER_OF(i);
        const uint4 words = pl_philox(PHILOX_FIRST(seed) + (number >> 2), 0, (ulong)seed[0]);
        if (pl_word(words, (int)(number & 3)) >= limit) y = LOAD(SRC, src, SRC_AT(i)) * scale;
    }
    STORE(DST, dst, DST_AT(i), y);
}
