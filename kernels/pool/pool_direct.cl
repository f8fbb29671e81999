// Pooling, any layout.
//
//   max:  dst[n, c, q] = max over k of src[n, c, q * stride - begin + k * dilation], padding never counts; NaN wins
//   avg:  dst[n, c, q] = (sum over k of src[...]) / count; count = the inputs seen, or, with COUNT_PAD, the positions
//         of the window inside [-begin, in + end)
// with q, k positions in (d, h, w).
//
// Tensors: SRC and DST (n, c, d, h, w), each at *_OFFSET of its own layout.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET5(dst, i##0, i##1, i##2, i##3, i##4)
#define DST_INSIDE(i) 1
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif
#ifndef POOL_MAX
#define POOL_MAX 1  // 1: maximum, 0: average
#endif
#define lowest_f32 (-INFINITY)
#define lowest_f16 (-INFINITY)
#define lowest_bf16 (-INFINITY)
#define lowest_s8 (-128)
#define lowest_u8 0
#define lowest_s32 INT_MIN
#define lowest_s64 LONG_MIN
#define LOWEST(T) PL_CAT(lowest_, T##_DTYPE)
#ifndef COUNT_PAD
#define COUNT_PAD 0  // average: 1 counts padding in the divisor
#endif

__kernel void pool_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const window_arg window, const int end_d,
                          const int end_h, const int end_w, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0);
        return;
    }
    const idx_t d0 = i2 * window.stride[0] - window.begin[0];
    const idx_t h0 = i3 * window.stride[1] - window.begin[1];
    const idx_t w0 = i4 * window.stride[2] - window.begin[2];
#if POOL_MAX
    COMPUTE_T(SRC) value = LOWEST(SRC);  // stays where dilation leads over the whole input
#else
    COMPUTE_T(SRC) value = 0;
    idx_t seen = 0;
#endif
    for (int kd = 0; kd < window.size[0]; ++kd) {
        const idx_t d = d0 + kd * (idx_t)window.dilation[0];
        if (d < 0 || d >= SRC_DIM(2)) continue;
        for (int kh = 0; kh < window.size[1]; ++kh) {
            const idx_t h = h0 + kh * (idx_t)window.dilation[1];
            if (h < 0 || h >= SRC_DIM(3)) continue;
            for (int kw = 0; kw < window.size[2]; ++kw) {
                const idx_t w = w0 + kw * (idx_t)window.dilation[2];
                if (w < 0 || w >= SRC_DIM(4)) continue;
                const COMPUTE_T(SRC) x = LOAD(SRC, src, SRC_OFFSET(i0, i1, d, h, w));
#if POOL_MAX
                // x != x: a NaN replaces whatever was there, and nothing replaces it.
                value = x > value || x != x ? x : value;
#else
                value += x;
                ++seen;
#endif
            }
        }
    }
#if !POOL_MAX
#if COUNT_PAD
    const idx_t count = (min(d0 + window.size[0], SRC_DIM(2) + end_d) - d0) *
                        (min(h0 + window.size[1], SRC_DIM(3) + end_h) - h0) *
                        (min(w0 + window.size[2], SRC_DIM(4) + end_w) - w0);
#else
    const idx_t count = seen;
#endif
    value /= (COMPUTE_T(SRC))count;
#endif
    STORE(DST, dst, DST_AT(i), value);
}
