// Convolution as an implicit matrix product with tiles in local memory and registers, for GPUs.
//
//   dst[n, o, q] = activation(sum over i, k of src[n, g * ic + i, q * stride - begin + k * dilation] * wei[o, i, k]
//                             + bias[o] + res[n, o, q])
// with g = o / oc_per_group, ic = WEI_DIM(1) the channels of a group; q, k positions in (d, h, w); src is zero outside.
//
// Tensors: SRC (n, c, d, h, w), WEI (oc, ic, kd, kh, kw), DST (n, oc, d, h, w), BIAS (oc), RES as DST; each at
// *_OFFSET of its own layout.  SRC and DST may be blocked along channels only.  Weights are read fastest where 16 output
// channels lie side by side, then the input channels.
//
// A work-group computes positions, in the order of (n, d, h, w), of the channels of one group: COLUMNS positions of
// ROWS channels if PIXELS_ACROSS, else ROWS positions of COLUMNS channels (common/register_tile.clh).  Group ids: tile of
// positions, tile of channels, g.  While a tile is multiplied the next one is on its way to registers.
// The sum is kept in f32, in the order of kd, kh, kw, i.
#include "common/epilogue.clh"
#include "common/register_tile.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_STRIDE(i) PLAIN_STRIDE(src, i)
#define SRC_UNIT_DIM 4
#define SRC_UNIT_RUN 0
#define WEI_DTYPE f32
#define WEI_OFFSET(o, i, d, h, w) PLAIN_OFFSET5(wei, o, i, d, h, w)
#define WEI_DIM(i) PLAIN_DIM(wei, i)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_PADDED(i) PLAIN_DIM(dst, i)
#define DST_BLOCK(i) 1
#endif

#ifndef PIXELS_ACROSS
#define PIXELS_ACROSS 1  // 1 where neighbouring positions lie side by side in dst, 0 where channels do
#endif

#if PIXELS_ACROSS
#define TILE_PIXELS COLUMNS
#define TILE_CHANNELS ROWS
#define PIXEL_PITCH COLUMN_PITCH
#define CHANNEL_PITCH ROW_PITCH
#else
#define TILE_PIXELS ROWS
#define TILE_CHANNELS COLUMNS
#define PIXEL_PITCH ROW_PITCH
#define CHANNEL_PITCH COLUMN_PITCH
#endif

#if SRC_UNIT_DIM == 1 && SRC_UNIT_RUN == 0
#define SRC_CHANNEL(c) (c)
#else
#define SRC_CHANNEL(c) (SRC_OFFSET(0, c, 0, 0, 0) - SRC_OFFSET(0, 0, 0, 0, 0))
#endif

// The j-th element of the tile of src that a work-item brings is of position PIXEL(j) and input channel DEPTH(j).
// Neighbouring work-items read neighbours in memory.
#define SHARE ((TILE_PIXELS * TILE_K + GROUP_SIZE - 1) / GROUP_SIZE)
#if SRC_UNIT_DIM == 1
#define PIXEL(j) ((item + (j)*GROUP_SIZE) / TILE_K)
#define DEPTH(j) ((item + (j)*GROUP_SIZE) % TILE_K)
#define SHARE_PIXELS SHARE  // different positions a work-item has to do with
#define PIXEL_SLOT(j) (j)
#else
#define PIXEL(j) ((item + (j)*GROUP_SIZE) % TILE_PIXELS)
#define DEPTH(j) ((item + (j)*GROUP_SIZE) / TILE_PIXELS)
#if GROUP_SIZE % (LOCAL_X * TILE_X) == 0 && GROUP_SIZE % (LOCAL_Y * TILE_Y) == 0
#define SHARE_PIXELS 1
#define PIXEL_SLOT(j) 0
#else
#define SHARE_PIXELS SHARE
#define PIXEL_SLOT(j) (j)
#endif
#endif
// The same of the weights: 16 output channels, then the input channels.
#define WEIGHTS_SHARE ((TILE_CHANNELS * TILE_K + GROUP_SIZE - 1) / GROUP_SIZE)
#define WEIGHT_ELEMENT(j) (item + (j)*GROUP_SIZE)
#define WEIGHT_CHANNEL(j) (WEIGHT_ELEMENT(j) / (16 * TILE_K) * 16 + WEIGHT_ELEMENT(j) % 16)
#define WEIGHT_DEPTH(j) (WEIGHT_ELEMENT(j) / 16 % TILE_K)

// The work-item's share of the tiles at kernel position (kd, kh, kw) and input channels from i0 on; zero outside.
#define FETCH()                                                                                                \
    {                                                                                                          \
        const idx_t dd = kd * (idx_t)window.dilation[0], hh = kh * (idx_t)window.dilation[1],                  \
                    ww = kw * (idx_t)window.dilation[2];                                                       \
        const idx_t shift = dd * SRC_STRIDE(2) + hh * SRC_STRIDE(3) + ww * SRC_STRIDE(4);                      \
        _Pragma("unroll") for (int j = 0; j < SHARE; ++j) {                                                    \
            const int s = PIXEL_SLOT(j);                                                                       \
            const idx_t i = i0 + DEPTH(j);                                                                     \
            const bool inside = i < ic && (uidx_t)(d0[s] + dd) < (uidx_t)SRC_DIM(2) &&                         \
                                (uidx_t)(h0[s] + hh) < (uidx_t)SRC_DIM(3) &&                                   \
                                (uidx_t)(w0[s] + ww) < (uidx_t)SRC_DIM(4);                                     \
            next_src[j] = inside ? LOAD(SRC, src, base[s] + shift + SRC_CHANNEL(c0 + i)) : 0.0f;               \
        }                                                                                                      \
        _Pragma("unroll") for (int j = 0; j < WEIGHTS_SHARE; ++j) {                                            \
            const idx_t o = o0 + WEIGHT_CHANNEL(j), i = i0 + WEIGHT_DEPTH(j);                                  \
            next_wei[j] = o < o_end && i < ic ? LOAD(WEI, wei, WEI_OFFSET(o, i, kd, kh, kw)) : 0.0f;           \
        }                                                                                                      \
    }

__kernel __attribute__((reqd_work_group_size(LOCAL_X, LOCAL_Y, 1)))
void conv_fwd_local(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                    const window_arg window, const idx_t oc_per_group, const idx_t pixels) {
    LOCAL_TILE(left, ROW_PITCH);
    LOCAL_TILE(right, COLUMN_PITCH);
#if PIXELS_ACROSS
#define PIXEL_TILE right
#define CHANNEL_TILE left
#else
#define PIXEL_TILE left
#define CHANNEL_TILE right
#endif
    const int item = (int)get_local_id(1) * LOCAL_X + (int)get_local_id(0);
    const idx_t first = (idx_t)get_group_id(0) * TILE_PIXELS, group = (idx_t)get_group_id(2);
    const idx_t ic = WEI_DIM(1), c0 = group * ic;
    const idx_t o0 = group * oc_per_group + (idx_t)get_group_id(1) * TILE_CHANNELS, o_end = (group + 1) * oc_per_group;

    // Where the windows of the positions begin whose inputs this work-item brings: offset (of channel 0) and indices
    // in src, both perhaps before it.  Positions beyond the last one lie outside of src.
    idx_t base[SHARE_PIXELS], d0[SHARE_PIXELS], h0[SHARE_PIXELS], w0[SHARE_PIXELS];
    _Pragma("unroll") for (int s = 0; s < SHARE_PIXELS; ++s) {
        const idx_t q = first + PIXEL(s);
        const idx_t w = q % DST_DIM(4), rest_h = q / DST_DIM(4), h = rest_h % DST_DIM(3), rest_d = rest_h / DST_DIM(3),
                    d = rest_d % DST_DIM(2), n = rest_d / DST_DIM(2);
        d0[s] = q < pixels && PIXEL(s) < TILE_PIXELS ? d * window.stride[0] - window.begin[0] : SRC_DIM(2);
        h0[s] = h * window.stride[1] - window.begin[1];
        w0[s] = w * window.stride[2] - window.begin[2];
        base[s] = SRC_OFFSET(n, 0, 0, 0, 0) + d0[s] * SRC_STRIDE(2) + h0[s] * SRC_STRIDE(3) + w0[s] * SRC_STRIDE(4);
    }

    float4 acc[TILE_Y][TILE_X / 4];
    _Pragma("unroll") for (int y = 0; y < TILE_Y; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_X / 4; ++x) acc[y][x] = (float4)(0.0f);
    float next_src[SHARE], next_wei[WEIGHTS_SHARE];
    int kd = 0, kh = 0, kw = 0;
    idx_t i0 = 0;
    FETCH()
    while (kd < window.size[0]) {
        barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("unroll") for (int j = 0; j < SHARE; ++j)
            if (item + j * GROUP_SIZE < TILE_PIXELS * TILE_K) PIXEL_TILE[DEPTH(j) * PIXEL_PITCH + PIXEL(j)] = next_src[j];
        _Pragma("unroll") for (int j = 0; j < WEIGHTS_SHARE; ++j)
            if (WEIGHT_ELEMENT(j) < TILE_CHANNELS * TILE_K)
                CHANNEL_TILE[WEIGHT_DEPTH(j) * CHANNEL_PITCH + WEIGHT_CHANNEL(j)] = next_wei[j];
        barrier(CLK_LOCAL_MEM_FENCE);
        i0 += TILE_K;
        if (i0 >= ic) {
            i0 = 0;
            if (++kw == window.size[2]) {
                kw = 0;
                if (++kh == window.size[1]) kh = 0, ++kd;
            }
        }
        if (kd < window.size[0]) FETCH()
        MULTIPLY_TILES(left, right, acc)
    }

    float4 sums[TILE_Y][TILE_X / 4];  // through memory, so that what follows is a loop
    _Pragma("unroll") for (int y = 0; y < TILE_Y; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_X / 4; ++x) sums[y][x] = acc[y][x];
    for (int y = 0; y < TILE_Y; ++y) {
        const float* sum = (const float*)sums[y];
        for (int x = 0; x < TILE_X; ++x) {
#if PIXELS_ACROSS
            const idx_t q = first + TILE_COLUMN(x), o = o0 + TILE_ROW(y);
#else
            const idx_t q = first + TILE_ROW(y), o = o0 + TILE_COLUMN(x);
#endif
            if (q >= pixels || o >= o_end) continue;
            const idx_t w = q % DST_DIM(4), rest_h = q / DST_DIM(4), h = rest_h % DST_DIM(3),
                        rest_d = rest_h / DST_DIM(3), d = rest_d % DST_DIM(2), n = rest_d / DST_DIM(2);
            const float value = EPILOGUE(sum[x], o, RES_OFFSET(n, o, d, h, w));
            STORE(DST, dst, DST_OFFSET(n, o, d, h, w), value);
        }
    }
#if DST_BLOCK(1) > 1
    if (o_end == DST_DIM(1) && o0 + TILE_CHANNELS >= o_end) {  // the last channels: padding follows
        for (int p = item; p < TILE_PIXELS && first + p < pixels; p += GROUP_SIZE) {
            const idx_t q = first + p;
            const idx_t w = q % DST_DIM(4), rest_h = q / DST_DIM(4), h = rest_h % DST_DIM(3),
                        rest_d = rest_h / DST_DIM(3), d = rest_d % DST_DIM(2), n = rest_d / DST_DIM(2);
            for (idx_t o = o_end; o < DST_PADDED(1); ++o) STORE(DST, dst, DST_OFFSET(n, o, d, h, w), 0);
        }
    }
#endif
}
