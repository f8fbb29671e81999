// Dropout as random_dropout_direct.cl, of tensors whose elements lie in the order of their dimensions.
//
// Tensors: SRC and DST, dense, of `count` elements; the seed, s64.  One work-item has the four elements of one counter.
#include "common/tensor.clh"
#include "common/philox.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif

__kernel void random_dropout_four(__global const STORAGE_T(SRC)* src, __global const long* restrict seed,
                                  __global STORAGE_T(DST)* dst, const ulong limit, const float scale,
                                  const idx_t count) {
    const idx_t at = (idx_t)get_global_id(0) * 4;
    if (at >= count) return;
    const uint4 words = pl_philox(PHILOX_FIRST(seed) + ((ulong)at >> 2), 0, (ulong)seed[0]);
    const float4 factors = (float4)(words.x >= limit ? scale : 0.0f, words.y >= limit ? scale : 0.0f,
                                    words.z >= limit ? scale : 0.0f, words.w >= limit ? scale : 0.0f);
    if (at + 4 <= count) {
        const float4 x = LOADV(SRC, 4, src, at);
        STOREV(DST, 4, dst, at, select(x * factors, (float4)(0.0f), factors == 0.0f));
        return;
    }
    const float kept[4] = {factors.x, factors.y, factors.z, factors.w};
    for (idx_t i = at; i < count; ++i) STORE(DST, dst, i, kept[i - at] == 0.0f ? 0.0f : LOAD(SRC, src, i) * kept[i - at]);
}
