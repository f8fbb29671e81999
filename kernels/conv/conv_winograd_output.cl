// Last pass of a convolution by Winograd's algorithm: products back to positions, and the epilogue.
//
//   dst[n, o, TILE * ty + y, TILE * tx + x] = activation((A^T m A)[y, x] + bias[o] + res[...]),   m[p] = m[tile, p * oc + o]
// of each plane, with tiles as conv_winograd_input.cl counts them (conv_winograd.clh).
//
// Tensors: DST and RES (n, oc, d, h, w); BIAS (oc).  m is f32, dense, `points * oc` to a row, from element
// `from` on.  One work-item makes one channel of one tile; global ids: channel (dst's padding included: zero), tile.
#include "common/epilogue.clh"
#include "common/positions.clh"
#include "conv/conv_winograd.clh"

#ifndef DST_DTYPE  // on its own: f32, (n, h, w, c)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_PADDED(i) PLAIN_DIM(dst, i)
#endif

__kernel void conv_winograd_output(__global const float* restrict m, TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                                   const int from, const int tiles_h, const int tiles_w) {
    const idx_t o = (idx_t)get_global_id(0), tile = (idx_t)get_global_id(1), oc = DST_DIM(1);
    const place_t at = pl_position(tile, DST_DIM(2), tiles_h, tiles_w);
    if (o >= DST_PADDED(1) || at.n >= DST_DIM(0)) return;
    const idx_t h0 = at.h * TILE, w0 = at.w * TILE, column = min(o, oc - 1);
    float between[WINDOW][TILE];  // by column: A^T m
    __global const float* in = m + from + tile * (POINTS * oc) + column;
    _Pragma("unroll") for (int x = 0; x < WINDOW; ++x) {
        float p[WINDOW];
        _Pragma("unroll") for (int y = 0; y < WINDOW; ++y) p[y] = in[(y * WINDOW + x) * oc];
        transform_output(p, between[x]);
    }
    _Pragma("unroll") for (int y = 0; y < TILE; ++y) {
        float row[WINDOW], made[TILE];
        _Pragma("unroll") for (int x = 0; x < WINDOW; ++x) row[x] = between[x][y];
        transform_output(row, made);
        _Pragma("unroll") for (int x = 0; x < TILE; ++x) {
            const idx_t h = h0 + y, w = w0 + x;
            if (h < DST_DIM(3) && w < DST_DIM(4)) {
                float value = 0.0f;  // of padding
                if (o < oc) value = EPILOGUE(made[x], o, RES_OFFSET(at.n, o, at.d, h, w));
                STORE(DST, dst, DST_OFFSET(at.n, o, at.d, h, w), value);
            }
        }
    }
}
