// First pass of a convolution by Winograd's algorithm: windows of the source to the transformed domain.
//
//   v[tile, p * c + i] = (B^T d B)[p / WINDOW, p % WINDOW],   d[y, x] = src[n, i, TILE * ty - top + y, TILE * tx - left + x]
// of each plane, with tile = (n * tiles_h + ty) * tiles_w + tx, or with DEPTH ((n * planes + z) * tiles_h + ty) *
// tiles_w + tx (common/positions.clh); src is zero outside; p < POINTS (conv_winograd.clh).
//
// Tensors: SRC (n, c, d, h, w).  v is f32, dense, `points * c` to a row, from element `to` on.
// One work-item transforms one channel of one window; global ids: channel, tile.
#include "common/positions.clh"
#include "conv/conv_winograd.clh"

#ifndef SRC_DTYPE  // on its own: f32, (n, h, w, c)
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#endif

__kernel void conv_winograd_input(TENSOR_IN(SRC, src), __global float* restrict v, const int to, const int tiles_h,
                                  const int tiles_w, const int top, const int left) {
    const idx_t c = (idx_t)get_global_id(0), tile = (idx_t)get_global_id(1);
    const place_t at = pl_position(tile, SRC_DIM(2), tiles_h, tiles_w);
    if (c >= SRC_DIM(1) || at.n >= SRC_DIM(0)) return;
    const idx_t y0 = at.h * TILE - top, x0 = at.w * TILE - left;
    float between[WINDOW][WINDOW];  // by column: B^T d
    _Pragma("unroll") for (int x = 0; x < WINDOW; ++x) {
        float d[WINDOW];
        _Pragma("unroll") for (int y = 0; y < WINDOW; ++y) {
            const idx_t h = y0 + y, w = x0 + x;
            const bool inside = (uidx_t)h < (uidx_t)SRC_DIM(3) && (uidx_t)w < (uidx_t)SRC_DIM(4);
            d[y] = inside ? LOAD(SRC, src, SRC_OFFSET(at.n, c, at.d, h, w)) : 0.0f;
        }
        transform_input(d, between[x]);
    }
    __global float* out = v + to + tile * (POINTS * SRC_DIM(1)) + c;
    _Pragma("unroll") for (int y = 0; y < WINDOW; ++y) {
        float row[WINDOW], made[WINDOW];
        _Pragma("unroll") for (int x = 0; x < WINDOW; ++x) row[x] = between[x][y];
        transform_input(row, made);
        _Pragma("unroll") for (int x = 0; x < WINDOW; ++x) out[(y * WINDOW + x) * SRC_DIM(1)] = made[x];
    }
}
