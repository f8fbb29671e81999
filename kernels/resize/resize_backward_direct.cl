// The gradient of resizing by nearest or linear interpolation, any layouts.
//
//   dst[n, c, q] = sum over the positions p of src that q has a part in of its weight there * src[n, c, p]
//
// with the weights of resize_direct, where dst's sizes are those of its source and src's those of its result.
// Tensors: SRC and DST (n, c, d, h, w), each at *_OFFSET of its own layout.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.  Along
// each dimension it asks the positions that may have a part of it what weight they give it, in ascending order.
#include "common/tensor.clh"
#include "resize/positions.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define DST_DTYPE f32
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_AT(i) PLAIN_OFFSET5(dst, i##0, i##1, i##2, i##3, i##4)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif

// The first and the last of `out` positions that may read position q of `in`, and a few more: what is at most one place
// away from q, or beyond the last place.  A scale of 0: all read one place.
static inline idx_t first_reader(idx_t q, float scale, idx_t out) {
    if (q == 0 || scale == 0.0f) return 0;
    return clamp((idx_t)(((float)q - 1.0f) / scale) - 2, (idx_t)0, out - 1);
}
static inline idx_t last_reader(idx_t q, float scale, idx_t in, idx_t out) {
    if (q == in - 1 || scale == 0.0f) return out - 1;
    return (idx_t)fmin(((float)q + 1.5f) / scale + 2.0f, (float)(out - 1));
}
static inline float weight_of(idx_t p, idx_t q, float scale, idx_t in, idx_t out) {
#if LINEAR
    const neighbours of = neighbours_of(p, scale, in, out);
    return (of.place[0] == q ? of.weight[0] : 0.0f) + (of.place[1] == q ? of.weight[1] : 0.0f);
#else
    return nearest(p, scale, in) == q ? 1.0f : 0.0f;
#endif
}

__kernel void resize_backward_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const float scale_d,
                                     const float scale_h, const float scale_w, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0);
        return;
    }
    const idx_t w0 = first_reader(i4, scale_w, SRC_DIM(4)), w1 = last_reader(i4, scale_w, DST_DIM(4), SRC_DIM(4));
    const idx_t h0 = SPATIAL > 1 ? first_reader(i3, scale_h, SRC_DIM(3)) : 0;
    const idx_t h1 = SPATIAL > 1 ? last_reader(i3, scale_h, DST_DIM(3), SRC_DIM(3)) : 0;
    const idx_t d0 = SPATIAL > 2 ? first_reader(i2, scale_d, SRC_DIM(2)) : 0;
    const idx_t d1 = SPATIAL > 2 ? last_reader(i2, scale_d, DST_DIM(2), SRC_DIM(2)) : 0;
    float sum = 0.0f;
    for (idx_t d = d0; d <= d1; ++d) {
        const float of_plane = SPATIAL > 2 ? weight_of(d, i2, scale_d, DST_DIM(2), SRC_DIM(2)) : 1.0f;
        if (of_plane == 0.0f) continue;
        for (idx_t h = h0; h <= h1; ++h) {
            const float of_row = SPATIAL > 1 ? weight_of(h, i3, scale_h, DST_DIM(3), SRC_DIM(3)) * of_plane : 1.0f;
            if (of_row == 0.0f) continue;
            float row = 0.0f;
            for (idx_t w = w0; w <= w1; ++w) {
                const float weight = weight_of(w, i4, scale_w, DST_DIM(4), SRC_DIM(4));
                if (weight != 0.0f) row += weight * LOAD(SRC, src, SRC_OFFSET(i0, i1, d, h, w));
            }
            sum += of_row * row;
        }
    }
    STORE(DST, dst, DST_AT(i), sum);
}
