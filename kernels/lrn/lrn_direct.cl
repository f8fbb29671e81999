// Normalisation of each element by its neighbours in other channels, any layouts.
//
//   dst[n, c, p] = src[n, c, p] / (k + scale * sum of src[n, j, p]^2)^beta,   c - before <= j <= c + after, existing j
//
// Tensors: SRC and DST (n, c, ...), each in its own layout.  SRC_CHANNEL(j) is the offset in SRC of i0, i1, ... with
// channel j in place of i1.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
// Assumes that before and after are at most the number of channels.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, (n, c)
#define SRC_DTYPE f32
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_CHANNEL(j) PLAIN_OFFSET2(src, i0, j)
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET2(dst, i##0, i##1)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) const idx_t i##1 = (place) % PLAIN_DIM(dst, 1), i##0 = (place) / PLAIN_DIM(dst, 1);
#endif

__kernel void lrn_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t before, const idx_t after,
                         const float scale, const float beta, const float k, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    float y = 0.0f;
    if (DST_INSIDE(i)) {
        const idx_t last = i1 + min(after, SRC_DIM(1) - 1 - i1);
        float sum = 0.0f;
        for (idx_t j = i1 - min(before, i1); j <= last; ++j) {
            const float x = LOAD(SRC, src, SRC_CHANNEL(j));
            sum += x * x;
        }
        y = LOAD(SRC, src, SRC_CHANNEL(i1)) / pow(k + scale * sum, beta);
    }
    STORE(DST, dst, DST_AT(i), y);
}
