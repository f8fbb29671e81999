// Pooling, channels innermost or in blocks, a vector of channels a work-item: on CPUs.
//
//   max:  dst[n, c, q] = max over k of src[n, c, q * stride - begin + k * dilation], padding never counts; NaN wins
//   avg:  dst[n, c, q] = (sum over k of src[...]) / count; count = the inputs seen, or, with COUNT_PAD, the positions
//         of the window inside [-begin, in + end)
// with q, k positions in (h, w).
//
// Tensors: SRC and DST (n, c, 1, h, w) with channels innermost (NHWC, dense) or in blocks (nChw16c).  What lies side by
// side is a multiple of VECTOR channels.
//
// A work-item computes TILE_W positions along w of VECTOR channels; neighbours have neighbouring channels.  Kernel
// size, stride and dilation are constants, so that what windows share is read once and kept in registers.  Work-item
// ids: 0 vectors of channels, 1 tiles along w, 2 (n, h).
#include "common/tensor.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, NHWC
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_STRIDE(i) PLAIN_STRIDE(src, i)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_PADDED(i) PLAIN_DIM(dst, i)
#endif
#ifndef VECTOR
#define VECTOR 4  // channels a work-item: 4, 8, 16
#endif
#ifndef POOL_MAX
#define POOL_MAX 1  // 1: maximum, 0: average
#endif
#ifndef COUNT_PAD
#define COUNT_PAD 0  // average: 1 counts padding in the divisor
#endif
#ifndef KERNEL_H
#define KERNEL_H 3  // rows of the window: 1 to 7
#endif
#ifndef KERNEL_W
#define KERNEL_W 3  // columns of the window: 1 to 7
#endif
#ifndef STRIDE_W
#define STRIDE_W 2  // the op's: 1 to 4
#endif
#ifndef DILATION_W
#define DILATION_W 1  // the op's: 1, 2, 4
#endif
#ifndef TILE_W
#define TILE_W 2  // columns a work-item: 1, 2, 4
#endif

#if VECTOR == 4
typedef float4 vec;
#define LOAD_CHANNELS(p, o) LOAD_QUAD(SRC, p, o)
#define STORE_CHANNELS(p, o, v) STORE_QUAD(DST, p, o, v)
#define WHOLE_VECTORS
#else
typedef PL_CAT(float, VECTOR) vec;
#define LOAD_CHANNELS(p, o) LOADV(SRC, VECTOR, p, o)
#define STORE_CHANNELS(p, o, v) STOREV(DST, VECTOR, p, o, v)
#define WHOLE_VECTORS __attribute__((intel_vec_len_hint(1)))  // work-items are not to be the lanes of vectors too
#endif
#if VECTOR == 4
#define LANE_NUMBERS (int4)(0, 1, 2, 3)
#elif VECTOR == 8
#define LANE_NUMBERS (int8)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#endif
#define SPAN_W ((TILE_W - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1)  // columns of src that a tile reaches
#if POOL_MAX
#define NOTHING (-INFINITY)
// x != x: a NaN replaces whatever was there, and nothing replaces it.
#define JOIN(value, x) select(value, x, (x > value) | (x != x))
#else
#define NOTHING 0.0f
#define JOIN(value, x) ((value) + (x))
#endif

__kernel WHOLE_VECTORS
void pool_quad(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const window_arg window, const int end_h, const int end_w) {
    const idx_t c = (idx_t)get_global_id(0) * VECTOR, first = (idx_t)get_global_id(1) * TILE_W;
    const idx_t h = (idx_t)get_global_id(2) % DST_DIM(3), n = (idx_t)get_global_id(2) / DST_DIM(3);
    if (c >= DST_PADDED(1) || first >= DST_DIM(4) || n >= DST_DIM(0)) return;
    const idx_t top = h * window.stride[1] - window.begin[1], left = first * STRIDE_W - window.begin[2];
    vec value[TILE_W];
    _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) value[x] = (vec)(NOTHING);
    int rows = 0;  // of the window that lie in src
    _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh) {
        const idx_t y = top + kh * (idx_t)window.dilation[1];
        if ((uidx_t)y >= (uidx_t)SRC_DIM(3)) continue;
        ++rows;
        const idx_t at = SRC_OFFSET(n, c, 0, y, left);
        vec row[SPAN_W];
        _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s)
            row[s] = (uidx_t)(left + s) < (uidx_t)SRC_DIM(4) ? LOAD_CHANNELS(src, at + s * SRC_STRIDE(4))
                                                             : (vec)(NOTHING);
        _Pragma("unroll") for (int x = 0; x < TILE_W; ++x)
            _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)
                value[x] = JOIN(value[x], row[x * STRIDE_W + kw * DILATION_W]);
    }
    _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) {
        const idx_t w = first + x, from = left + x * STRIDE_W;
        if (w >= DST_DIM(4)) continue;
#if !POOL_MAX
#if COUNT_PAD
        const idx_t count =
            (min(top + KERNEL_H, SRC_DIM(3) + end_h) - top) * (min(from + KERNEL_W, SRC_DIM(4) + end_w) - from);
#else
        int columns = 0;
        _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)
            columns += (uidx_t)(from + kw * DILATION_W) < (uidx_t)SRC_DIM(4) ? 1 : 0;
        const idx_t count = rows * columns;
#endif
        value[x] /= (float)count;
#endif
#if POOL_MAX
        if (c + VECTOR > DST_DIM(1))  // padding of blocks is zero, also where a dilated window steps over all of src
            value[x] = select(value[x], (vec)(0.0f), LANE_NUMBERS >= (int)(DST_DIM(1) - c));
#endif
        STORE_CHANNELS(dst, DST_OFFSET(n, c, 0, h, w), value[x]);
    }
}
