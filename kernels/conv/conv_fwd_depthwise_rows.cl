// Depthwise convolution for CPUs: tiles of positions by a vector of channels, all in registers.
//
//   dst[n, c, q] = activation(sum over k of src[n, c, q * stride - begin + k * dilation] * wei[c, 0, k]
//                             + bias[c] + res[n, c, q])
// with q, k positions in (h, w); src is zero outside.
//
// Tensors: SRC (n, c, 1, h, w), WEI (c, 1, 1, kh, kw), DST and RES as SRC, BIAS (c).  Assumed: VECTOR channels from a
// multiple of VECTOR on lie side by side in SRC, WEI, DST and RES, the last ones of which may be padding: all channels
// (n, h, w, c), or a block (n, c / 16, h, w, 16).  Elements from a column of SRC to the next one are STEP.
//
// A tile is TILE_H x TILE_W positions.  Kernel size, stride and dilation are constants, so that each vector of SRC is
// read once and used for every position of the tile that it reaches.  A unit is TILE_H rows of positions, all tiles in
// it, of `vectors` vectors of channels, which vary fastest: where they lie side by side memory is read in order.
// Global id: `chunk` neighbouring units; those of a segment of channels follow one another, then segments, then images.
// The sum is kept in f32, in the order of kh, kw.
#include "common/epilogue.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, (n, c, h, w, 1 channel), which only VECTOR equal to the channels makes sense of
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define WEI_DTYPE f32
#define WEI_OFFSET(o, i, d, h, w) PLAIN_OFFSET5(wei, o, i, d, h, w)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_PADDED(i) PLAIN_DIM(dst, i)
#endif
#ifndef STEP
#define STEP 16
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
#define DILATION_H 1  // the op's: 1 to 8
#endif
#ifndef DILATION_W
#define DILATION_W 1  // the op's: 1 to 8
#endif
#ifndef VECTOR
#define VECTOR 16  // channels in a vector: 4, 8, 16
#endif
#ifndef TILE_H
#define TILE_H 2  // rows of a tile: 1, 2
#endif
#ifndef TILE_W
#define TILE_W 8  // columns of a tile: 4, 7, 8
#endif
#ifndef SHORT_EPILOGUE
#define SHORT_EPILOGUE 0  // 1: what follows the sum is short enough to be repeated for each sum of a tile
#endif

#define SPAN_H ((TILE_H - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1)  // rows of src that a tile reaches
#define SPAN_W ((TILE_W - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1)

typedef struct {
    int vectors, segments;     // vectors of channels in a segment, segments
    int tiles_h, tiles_w;      // tiles along h, w
    int units, chunk;          // units in all, units a work-item
} depthwise_arg;

typedef COMPUTE_VT(WEI, VECTOR) vec;

// Adds row r of those that a tile reaches, which begins at `from`; LOADED(s) is its column s.
#define ADD_ROW(r, LOADED)                                                                             \
    _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s) {                                               \
        const vec x = LOADED(s);                                                                       \
        _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)                                             \
            _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh) {                                  \
                if (y * STRIDE_H + kh * DILATION_H != (r)) continue;                                   \
                _Pragma("unroll") for (int t = 0; t < TILE_W; ++t)                                     \
                    _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)                            \
                        if (t * STRIDE_W + kw * DILATION_W == s) acc[y][t] += x * weight[kh][kw];      \
            }                                                                                          \
    }
#define INSIDE(s) LOADV(SRC, VECTOR, src, from + (s)*STEP)
#define CHECKED(s) ((uidx_t)(left + (s)) < (uidx_t)SRC_DIM(4) ? INSIDE(s) : (vec)(0.0f))

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((intel_vec_len_hint(1)))
void conv_fwd_depthwise_rows(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                             const window_arg window, const depthwise_arg a) {
    const int first_unit = (int)get_global_id(0) * a.chunk, last_unit = min(first_unit + a.chunk, a.units);
    for (int unit = first_unit; unit < last_unit; ++unit) {
        const idx_t h0 = unit % a.tiles_h * (idx_t)TILE_H;
        const int segment = unit / a.tiles_h % a.segments;
        const idx_t n = unit / a.tiles_h / a.segments;
        const idx_t o0 = (idx_t)segment * a.vectors * VECTOR, o1 = min(o0 + a.vectors * (idx_t)VECTOR, DST_PADDED(1));
        const idx_t top = h0 * STRIDE_H - window.begin[1];
        for (idx_t w0 = 0; w0 < DST_DIM(4); w0 += TILE_W) {
            const idx_t left = w0 * STRIDE_W - window.begin[2];
            const bool inside = left >= 0 && left + SPAN_W <= SRC_DIM(4);
            for (idx_t o = o0; o < o1; o += VECTOR) {
                vec weight[KERNEL_H][KERNEL_W];
                _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh)
                    _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)
                        weight[kh][kw] = LOADV(WEI, VECTOR, wei, WEI_OFFSET(o, 0, 0, kh, kw));
                vec acc[TILE_H][TILE_W];
                _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
                    _Pragma("unroll") for (int t = 0; t < TILE_W; ++t) acc[y][t] = (vec)(0.0f);
                if (inside) {
                    _Pragma("unroll") for (int r = 0; r < SPAN_H; ++r) {
                        if ((uidx_t)(top + r) >= (uidx_t)SRC_DIM(3)) continue;
                        const idx_t from = SRC_OFFSET(n, o, 0, top + r, left);
                        ADD_ROW(r, INSIDE)
                    }
                } else {
                    _Pragma("unroll") for (int r = 0; r < SPAN_H; ++r) {
                        if ((uidx_t)(top + r) >= (uidx_t)SRC_DIM(3)) continue;
                        const idx_t from = SRC_OFFSET(n, o, 0, top + r, left);
                        ADD_ROW(r, CHECKED)
                    }
                }
#if SHORT_EPILOGUE
                if (o + VECTOR <= DST_DIM(1)) {
                    _Pragma("unroll") for (int y = 0; y < TILE_H; ++y) {
                        if (h0 + y >= DST_DIM(3)) continue;
                        _Pragma("unroll") for (int t = 0; t < TILE_W; ++t) {
                            if (w0 + t >= DST_DIM(4)) continue;
                            const vec value = EPILOGUE_V(VECTOR, acc[y][t], o, RES_OFFSET(n, o, 0, h0 + y, w0 + t));
                            STOREV(DST, VECTOR, dst, DST_OFFSET(n, o, 0, h0 + y, w0 + t), value);
                        }
                    }
                    continue;
                }
#endif
                // Through memory, so that what follows is a loop: it is long where the activation is.
                vec sums[TILE_H][TILE_W];
                _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
                    _Pragma("unroll") for (int t = 0; t < TILE_W; ++t) sums[y][t] = acc[y][t];
                for (int y = 0; y < TILE_H && h0 + y < DST_DIM(3); ++y)
                    for (int t = 0; t < TILE_W && w0 + t < DST_DIM(4); ++t) {
                        const idx_t h = h0 + y, w = w0 + t;
                        if (o + VECTOR <= DST_DIM(1)) {
                            const vec value = EPILOGUE_V(VECTOR, sums[y][t], o, RES_OFFSET(n, o, 0, h, w));
                            STOREV(DST, VECTOR, dst, DST_OFFSET(n, o, 0, h, w), value);
                            continue;
                        }
                        const float* sum = (const float*)&sums[y][t];
                        for (int j = 0; j < VECTOR && o + j < DST_PADDED(1); ++j) {
                            float value = 0.0f;  // of padding
                            if (o + j < DST_DIM(1)) value = EPILOGUE(sum[j], o + j, RES_OFFSET(n, o + j, 0, h, w));
                            STORE(DST, dst, DST_OFFSET(n, o + j, 0, h, w), value);
                        }
                    }
            }
        }
    }
}
