// Convolution of few terms a result, four output channels a work-item: direct sums in f32.
//
//   dst[n, o, q] = activation(sum over i, k of src[n, g * ic + i, q * stride - begin + k * dilation] * wei[o, i, k]
//                             + bias[o] + res[n, o, q])
// with g = o / (output channels of a group), ic the input channels of a group; q, k positions in (h, w); src is zero
// outside.
//
// Tensors: DST (n, o, 1, h, w) and RES with channels innermost (NHWC, dense), o of a group a multiple of 4; WEI (o, i,
// 1, kh, kw) with output channels innermost (hwio, dense), so that neighbouring work-items read neighbouring weights.
// SRC (n, c, 1, h, w) either has its channels in fours (NHWC with ic a multiple of 4; nChw4c, nChw8c of few channels),
// or SINGLES 1: at most four channels in all, NCHW or NHWC, read one by one.
//
// A work-item computes TILE_H x TILE_W positions of QUADS quads of channels of one group; its neighbours have the
// neighbouring quads, so that stores and loads of weights lie side by side, and in groups those of src too.  Channels,
// kernel size, stride and dilation are constants.  For each row of the kernel and four input channels the rows of src
// that the tile meets are loaded into registers, then each weight once for all positions.
// Work-item ids: 0 (tiles along w, quads), 1 (n, tiles along h).
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
#ifndef IN_OF_GROUP
#define IN_OF_GROUP 4  // input channels of a group: 1 to 3, 4, 8, ... 32
#endif
#ifndef OUT_OF_GROUP
#define OUT_OF_GROUP 4  // output channels of a group: a multiple of 4
#endif
#ifndef OUT_CHANNELS
#define OUT_CHANNELS 128  // of all groups
#endif
#ifndef PIXEL
#define PIXEL 128  // elements of src between neighbours along w
#endif
#ifndef SINGLES
#define SINGLES 0  // 1: channels of src need not lie side by side: 0, 1
#endif
#ifndef KERNEL_H
#define KERNEL_H 3  // rows of the kernel
#endif
#ifndef KERNEL_W
#define KERNEL_W 3  // columns of the kernel
#endif
#ifndef STRIDE_H
#define STRIDE_H 1  // the op's
#endif
#ifndef STRIDE_W
#define STRIDE_W 1  // the op's
#endif
#ifndef DILATION_H
#define DILATION_H 1  // the op's
#endif
#ifndef DILATION_W
#define DILATION_W 1  // the op's
#endif
#ifndef TILE_H
#define TILE_H 1  // rows a work-item: 1, 2, 4
#endif
#ifndef TILE_W
#define TILE_W 4  // columns a work-item: 1, 2, 4, 7, 8
#endif
#ifndef QUADS
#define QUADS 1  // quads of output channels a work-item, which divide those of a group: 1, 2, 4
#endif

#define SPAN_W ((TILE_W - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1)  // columns of src that a tile reaches
#define ITEMS_OF_GROUP (OUT_OF_GROUP / (4 * QUADS))                         // work-items that share a tile of a group
#define ITEMS (OUT_CHANNELS / (4 * QUADS))
#define QUAD_STEP (OUT_OF_GROUP / QUADS)  // channels between the quads of a work-item

#if SINGLES
#define LOAD_CHANNEL(i, from, at) ((i) < IN_OF_GROUP ? LOAD(SRC, from + (i) * SRC_STRIDE(1), at) : 0.0f)
#define LOAD_PIXEL(from, at)                                          \
    ((float4)(LOAD_CHANNEL(0, from, at), LOAD_CHANNEL(1, from, at), \
              LOAD_CHANNEL(2, from, at), LOAD_CHANNEL(3, from, at)))
#else
#define LOAD_PIXEL(from, at) LOAD_QUAD(SRC, from, at)
#endif

// Adds input channel i + (the lane's number) at column kw of the kernel to all sums.
#define ADD_CHANNEL(lane, number)                                                                           \
    if (IN_OF_GROUP % 4 == 0 || number < IN_OF_GROUP)                                                       \
        _Pragma("unroll") for (int q = 0; q < QUADS; ++q) {                                                 \
            const float4 weight = LOAD_QUAD(                                                                \
                WEI, weights, (kw * IN_OF_GROUP + number) * OUT_CHANNELS + q * QUAD_STEP);            \
            _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)                                              \
                _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) acc[q][y][x] =                           \
                    fma((float4)(pixels[y][x * STRIDE_W + kw * DILATION_W].lane), weight, acc[q][y][x]);    \
        }

__kernel void conv_fwd_quad(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                            const window_arg window) {
    const idx_t tiles_h = (DST_DIM(3) + TILE_H - 1) / TILE_H;
    const idx_t first_w = (idx_t)get_global_id(0) / ITEMS * TILE_W;
    const idx_t first_h = (idx_t)get_global_id(1) % tiles_h * TILE_H, n = (idx_t)get_global_id(1) / tiles_h;
    if (first_w >= DST_DIM(4) || n >= DST_DIM(0)) return;
    const int item = (int)((idx_t)get_global_id(0) % ITEMS);
    const int group = item / ITEMS_OF_GROUP, o = group * OUT_OF_GROUP + item % ITEMS_OF_GROUP * 4;
    const idx_t top = first_h * STRIDE_H - window.begin[1], left = first_w * STRIDE_W - window.begin[2];

    // Of most tiles: loads behind conditions of their own may wait for each other.
    const bool columns_inside = left >= 0 && left + SPAN_W <= SRC_DIM(4);
    float4 acc[QUADS][TILE_H][TILE_W];
    _Pragma("unroll") for (int q = 0; q < QUADS; ++q)
        _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
            _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) acc[q][y][x] = (float4)(0.0f);
    for (int kh = 0; kh < KERNEL_H; ++kh)
        for (int i = 0; i < IN_OF_GROUP; i += 4) {
            float4 pixels[TILE_H][SPAN_W];
            _Pragma("unroll") for (int y = 0; y < TILE_H; ++y) {
                const idx_t h = top + y * STRIDE_H + kh * DILATION_H;
                __global const STORAGE_T(SRC)* const from = src + SRC_OFFSET(n, group * IN_OF_GROUP + i, 0, h, left);
                if ((uidx_t)h >= (uidx_t)SRC_DIM(3)) {
                    _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s) pixels[y][s] = (float4)(0.0f);
                } else if (columns_inside) {
                    _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s) pixels[y][s] = LOAD_PIXEL(from, s * PIXEL);
                } else {
                    _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s) pixels[y][s] =
                        (uidx_t)(left + s) < (uidx_t)SRC_DIM(4) ? LOAD_PIXEL(from, s * PIXEL) : (float4)(0.0f);
                }
            }
            __global const STORAGE_T(WEI)* const weights =
                wei + WEI_BASE + (kh * KERNEL_W * IN_OF_GROUP + i) * OUT_CHANNELS + o;
            _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw) {
                ADD_CHANNEL(s0, 0)
                ADD_CHANNEL(s1, 1)
                ADD_CHANNEL(s2, 2)
                ADD_CHANNEL(s3, 3)
            }
        }
    _Pragma("unroll") for (int q = 0; q < QUADS; ++q)
        _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
            _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) {
                const idx_t h = first_h + y, w = first_w + x, c = o + q * QUAD_STEP;
                if (h < DST_DIM(3) && w < DST_DIM(4))
                    STORE_QUAD(DST, dst, DST_OFFSET(n, c, 0, h, w),
                               EPILOGUE_QUAD(acc[q][y][x], c, RES_OFFSET(n, c, 0, h, w)));
            }
}
