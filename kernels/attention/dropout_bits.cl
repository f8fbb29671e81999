// Which of attention's weights random_dropout keeps, a bit each.
//
//   bits[bits_at + row * words + w], bit b: 1 where weight row * keys + 32 * w + b is kept,   words = (keys + 31) / 32
//
// Rows are the queries of all heads in the order of their dimensions.  The word of a weight's number (common/philox.clh)
// is above DROPOUT_HIGHEST where it is kept.  Drawn once, bits serve all tiles and, in backward, three kernels: for each
// of these to draw them took 1.2 (f32) to 5 (f16) times as long as attention without dropout (H200, 2,048 words).
// One work-item writes one word, of eight counters or nine.
#include "common/tensor.clh"
#include "common/philox.clh"

#ifndef DROPOUT_HIGHEST
#define DROPOUT_HIGHEST 429496729u
#endif

__kernel void dropout_bits(__global const long* restrict seed, __global uint* restrict bits, const idx_t bits_at,
                           const idx_t keys, const idx_t count) {
    const idx_t at = (idx_t)get_global_id(0);
    if (at >= count) return;
    const idx_t words = (keys + 31) / 32;
    const ulong number = (ulong)(at / words) * (ulong)keys + (ulong)(at % words) * 32;
    const int before = (int)(number & 3);  // weights of the first counter that another word has
    ulong kept = 0;
    for (int i = 0; i < 8 + (before > 0); ++i) {
        const uint4 drawn = pl_philox(PHILOX_FIRST(seed) + (number >> 2) + (ulong)i, 0, (ulong)seed[0]);
        const uint four = (uint)(drawn.x > DROPOUT_HIGHEST) | (uint)(drawn.y > DROPOUT_HIGHEST) << 1 |
                          (uint)(drawn.z > DROPOUT_HIGHEST) << 2 | (uint)(drawn.w > DROPOUT_HIGHEST) << 3;
        kept |= (ulong)four << (4 * i);
    }
    bits[bits_at + at] = (uint)(kept >> before);
}
