// Pooling, channels first: neighbours in a work-group have neighbouring columns.
//
//   max:  dst[p, q] = max over k of src[p, q * stride - begin + k * dilation], padding never counts; NaN wins
//   avg:  dst[p, q] = (sum over k of src[...]) / count; count = the inputs seen, or, with COUNT_PAD, the positions
//         of the window inside [-begin, in + end)
// with q, k positions in (h, w), p the planes of all images.
//
// Tensors: SRC (p, in_h, in_w) and DST (p, out_h, out_w), dense.
//
// A work-item computes TILE_H rows of a column.  Kernel size, stride and dilation along h are constants: a row of src is
// read once, joined along w, and then joined to each row of dst that wants it.  Work-items are numbered by columns,
// tiles of rows, planes; `columns` and `tiles` are how many there are.
#include "common/pieces.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
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
#ifndef STRIDE_H
#define STRIDE_H 2  // the op's: 1 to 4
#endif
#ifndef DILATION_H
#define DILATION_H 1  // the op's
#endif
#ifndef TILE_H
#define TILE_H 4  // rows a work-item: 1, 2, 4
#endif
#define SPAN_H ((TILE_H - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1)  // rows of src that a tile reaches
#if POOL_MAX
#define NOTHING (-INFINITY)
#define JOIN(value, x) ((x) > (value) || (x) != (x) ? (x) : (value))  // a NaN replaces whatever was there
#else
#define NOTHING 0.0f
#define JOIN(value, x) ((value) + (x))
#endif

typedef struct {
    int in_h, in_w, out_h, out_w;
    int stride_w, dilation_w;
    int begin_h, begin_w, end_h, end_w;
} pool_arg;

__kernel void pool_columns(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                           const pool_arg pool, const divisor columns, const divisor tiles, const int all) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)all) return;
    PL_SPLIT(rest, columns, column)
    PL_SPLIT(rest, tiles, tile)
    const int w = (int)column, h0 = (int)tile * TILE_H, plane = (int)rest;
    const int top = h0 * STRIDE_H - pool.begin_h, left = w * pool.stride_w - pool.begin_w;
    float joined[SPAN_H];
    int from = (plane * pool.in_h + top) * pool.in_w + left;
    _Pragma("unroll") for (int s = 0; s < SPAN_H; ++s, from += pool.in_w) {
        joined[s] = NOTHING;
        bool wanted = false;
        _Pragma("unroll") for (int r = 0; r < TILE_H; ++r)
            wanted = wanted || (s >= r * STRIDE_H && (s - r * STRIDE_H) % DILATION_H == 0 &&
                                s - r * STRIDE_H <= (KERNEL_H - 1) * DILATION_H);
        if (!wanted || (uint)(top + s) >= (uint)pool.in_h) continue;
        float x[KERNEL_W];
        _Pragma("unroll") for (int k = 0; k < KERNEL_W; ++k)
            x[k] = (uint)(left + k * pool.dilation_w) < (uint)pool.in_w ? LOAD(SRC, src, from + k * pool.dilation_w)
                                                                        : NOTHING;
        _Pragma("unroll") for (int k = 0; k < KERNEL_W; ++k) joined[s] = JOIN(joined[s], x[k]);
    }
#if !POOL_MAX && !COUNT_PAD
    int seen = 0;
    _Pragma("unroll") for (int k = 0; k < KERNEL_W; ++k)
        seen += (uint)(left + k * pool.dilation_w) < (uint)pool.in_w ? 1 : 0;
#endif
    _Pragma("unroll") for (int r = 0; r < TILE_H; ++r) {
        if (h0 + r >= pool.out_h) continue;
        float value = NOTHING;
        _Pragma("unroll") for (int k = 0; k < KERNEL_H; ++k) value = JOIN(value, joined[r * STRIDE_H + k * DILATION_H]);
#if !POOL_MAX
        const int above = top + r * STRIDE_H;
#if COUNT_PAD
        const int count = (min(above + KERNEL_H, pool.in_h + pool.end_h) - above) *
                          (min(left + KERNEL_W, pool.in_w + pool.end_w) - left);
#else
        int rows = 0;
        _Pragma("unroll") for (int k = 0; k < KERNEL_H; ++k)
            rows += (uint)(above + k * DILATION_H) < (uint)pool.in_h ? 1 : 0;
        const int count = rows * seen;
#endif
        value /= (float)count;
#endif
        STORE(DST, dst, (plane * pool.out_h + h0 + r) * pool.out_w + w, value);
    }
}
