// Depthwise convolution, channels innermost, four channels a work-item.
//
//   dst[n, c, q] = activation(sum over k of src[n, c, q * stride - begin + k * dilation] * wei[c, k]
//                             + bias[c] + res[n, c, q])
// with q, k positions in (h, w); src is zero outside.
//
// Tensors: SRC (n, c, 1, h, w), DST (n, c, 1, h, w) and RES with channels innermost (NHWC, dense), WEI (c, 1, 1, kh,
// kw) with channels innermost too (hwo), BIAS (c).  c is a multiple of 4.
//
// A work-item computes TILE_H x TILE_W positions of four channels; neighbours have neighbouring channels.  Kernel size,
// stride and dilation are constants, so that a row of src is read once, kept in registers and used for every position
// of the tile that it reaches.  Work-item ids: 0 quads of channels, 1 tiles along w, 2 (n, tiles along h).
#include "common/epilogue.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, NHWC
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_STRIDE(i) PLAIN_STRIDE(src, i)
#define WEI_DTYPE f32
#define WEI_BASE (wei_arg.offset)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif
#ifndef KERNEL_H
#define KERNEL_H 3  // rows of the kernel: 1 to 7
#endif
#ifndef KERNEL_W
#define KERNEL_W 3  // columns of the kernel: 1 to 7
#endif
#ifndef STRIDE_H
#define STRIDE_H 1  // the op's: 1 to 4
#endif
#ifndef STRIDE_W
#define STRIDE_W 1  // the op's: 1 to 4
#endif
#ifndef DILATION_H
#define DILATION_H 1  // the op's: 1, 2, 4
#endif
#ifndef DILATION_W
#define DILATION_W 1  // the op's: 1, 2, 4
#endif
#ifndef TILE_H
#define TILE_H 2  // rows a work-item: 1, 2, 4
#endif
#ifndef TILE_W
#define TILE_W 2  // columns a work-item: 1, 2, 4
#endif

#define SPAN_H ((TILE_H - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1)  // rows of src that a tile reaches
#define SPAN_W ((TILE_W - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1)

__kernel void conv_fwd_depthwise_quad(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei),
                                      TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS, const window_arg window) {
    const idx_t c = (idx_t)get_global_id(0) * 4, first_w = (idx_t)get_global_id(1) * TILE_W;
    const idx_t tiles_h = (DST_DIM(3) + TILE_H - 1) / TILE_H;
    const idx_t first_h = (idx_t)get_global_id(2) % tiles_h * TILE_H, n = (idx_t)get_global_id(2) / tiles_h;
    if (c >= DST_DIM(1) || first_w >= DST_DIM(4) || n >= DST_DIM(0)) return;
    const idx_t top = first_h * STRIDE_H - window.begin[1], left = first_w * STRIDE_W - window.begin[2];

    float4 acc[TILE_H][TILE_W];
    _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) acc[y][x] = (float4)(0.0f);
    float4 weight[KERNEL_H][KERNEL_W];
    _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh)
        _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)
            weight[kh][kw] = LOAD_QUAD(WEI, wei, WEI_BASE + (kh * KERNEL_W + kw) * DST_DIM(1) + c);
    _Pragma("unroll") for (int r = 0; r < SPAN_H; ++r) {
        float4 row[SPAN_W];
        const bool row_inside = (uidx_t)(top + r) < (uidx_t)SRC_DIM(3);
        const idx_t at = SRC_OFFSET(n, c, 0, top + r, left);
        _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s)
            row[s] = row_inside && (uidx_t)(left + s) < (uidx_t)SRC_DIM(4) ? LOAD_QUAD(SRC, src, at + s * SRC_STRIDE(4))
                                                                          : (float4)(0.0f);
        _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
            _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh)
                if (y * STRIDE_H + kh * DILATION_H == r)
                    _Pragma("unroll") for (int x = 0; x < TILE_W; ++x)
                        _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)
                            acc[y][x] = fma(row[x * STRIDE_W + kw * DILATION_W], weight[kh][kw], acc[y][x]);
    }
    _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) {
            const idx_t h = first_h + y, w = first_w + x;
            if (h < DST_DIM(3) && w < DST_DIM(4))
                STORE_QUAD(DST, dst, DST_OFFSET(n, c, 0, h, w), EPILOGUE_QUAD(acc[y][x], c, RES_OFFSET(n, c, 0, h, w)));
        }
}
