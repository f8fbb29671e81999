// A plain tensor of few channels in one block of them: NCHW to nChw4c or nChw8c, what first layers take.
//
//   dst[n, p, c] = src[n, c, p]   for c < channels, zero for the rest of the block;   p the positions
//
// Tensors: SRC (n, channels, positions) and DST (n, positions, BLOCK), dense.  One work-item makes the block of one
// position: it reads beside its neighbours in each channel and writes side by side with them.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef BLOCK
#define BLOCK 4  // channels of a block: 4, 8
#endif
#ifndef CHANNELS
#define CHANNELS 3  // of src, at most BLOCK: 1, 2, 3, 4
#endif

__kernel void reorder_pieces(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                             const idx_t positions, const idx_t all) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= all) return;
    const idx_t n = place / positions, from = place + n * positions * (CHANNELS - 1);
    float block[BLOCK];
    _Pragma("unroll") for (int c = 0; c < BLOCK; ++c)
        block[c] = c < CHANNELS ? LOAD(SRC, src, from + c * positions) : 0.0f;
    _Pragma("unroll") for (int c = 0; c < BLOCK; c += 4)
        STORE_QUAD(DST, dst, place * BLOCK + c, (float4)(block[c], block[c + 1], block[c + 2], block[c + 3]));
}
