// Pooling, channels innermost or in blocks, a piece of channels of several positions a work-item.
//
//   max:  dst[o, q, c] = max over k of src[o, q * stride - begin + k * dilation, c], padding never counts; NaN wins
//   avg:  dst[o, q, c] = (sum over k of src[...]) / count; count = the inputs seen, or, with COUNT_PAD, the positions
//         of the window inside [-begin, in + end)
// with q, k positions in (h, w).
//
// Tensors: SRC (o, in_h, in_w, run) and DST (o, out_h, out_w, run), dense: channels last (run all channels, o images)
// or in blocks (run a block, o the blocks of all images; with PADDED only `channels` of an image's `blocks` are no
// padding).
//
// A work-item computes TILE_H x TILE_W positions of PIECE channels; PIECE divides run.  Kernel size, stride and
// dilation are constants: a row of src is read once, joined along w, and then joined to each row of dst that wants it,
// while the next one is on its way.  Work-items are numbered by pieces, tiles of columns, tiles of rows, o.
#include "common/held.clh"
#include "pool/join.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef STRIDE_H
#define STRIDE_H 2  // the op's
#endif
#ifndef STRIDE_W
#define STRIDE_W 2  // the op's: 1 to 4
#endif
#ifndef DILATION_H
#define DILATION_H 1  // the op's
#endif
#ifndef DILATION_W
#define DILATION_W 1  // the op's
#endif
#ifndef PADDED
#define PADDED 0  // 1: in blocks, the last of which is not full
#endif
#ifndef TILE_H
#define TILE_H 2  // rows a work-item: 1, 2, 4
#endif
#ifndef TILE_W
#define TILE_W 2  // columns a work-item: 1, 2, 4
#endif
#define SPAN_W ((TILE_W - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1)  // columns of src that a tile reaches
// Rows of src that a tile reaches, every STEP-th: of one row of dst no others than it wants.
#if TILE_H == 1
#define STEP DILATION_H
#else
#define STEP 1
#endif
#define ROWS (((TILE_H - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H) / STEP + 1)

typedef struct {
    int in_h, in_w, out_h, out_w, run, channels;
    int begin_h, begin_w, end_h, end_w;
} pool_arg;

__kernel void pool_pieces(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                          const pool_arg pool, const divisor pieces, const divisor across, const divisor down,
                          const divisor blocks, const int all) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)all) return;
    PL_SPLIT(rest, pieces, piece)
    PL_SPLIT(rest, across, column)
    PL_SPLIT(rest, down, row)
    const int c = (int)piece * PIECE, w0 = (int)column * TILE_W, h0 = (int)row * TILE_H;
    const int top = h0 * STRIDE_H - pool.begin_h, left = w0 * STRIDE_W - pool.begin_w;
    const idx_t in_row = (idx_t)pool.in_w * pool.run;
    idx_t from = ((idx_t)rest * pool.in_h + top) * in_row + (idx_t)left * pool.run + c;
    float value[TILE_H][TILE_W][PIECE];
    _Pragma("unroll") for (int r = 0; r < TILE_H; ++r)
        _Pragma("unroll") for (int w = 0; w < TILE_W; ++w)
            _Pragma("unroll") for (int k = 0; k < PIECE; ++k) value[r][w][k] = NOTHING;
    HELD_T(SRC, PIECE) next[SPAN_W];
    _Pragma("unroll") for (int i = 0; i < SPAN_W; ++i) next[i] = POOL_NONE(SRC, PIECE);
    _Pragma("unroll") for (int s = -1; s < ROWS; ++s) {
        HELD_T(SRC, PIECE) now[SPAN_W];
        _Pragma("unroll") for (int i = 0; i < SPAN_W; ++i) now[i] = next[i];
        if (s + 1 < ROWS) {
            const bool there = (uint)(top + (s + 1) * STEP) < (uint)pool.in_h;
            _Pragma("unroll") for (int i = 0; i < SPAN_W; ++i) {
                next[i] = POOL_NONE(SRC, PIECE);
                if (there && (uint)(left + i) < (uint)pool.in_w)
                    next[i] = HELD_LOAD(SRC, PIECE, src, from + (idx_t)((s + 1) * STEP) * in_row + (idx_t)i * pool.run);
            }
        }
        if (s < 0) continue;
        float x[SPAN_W][PIECE];
        _Pragma("unroll") for (int i = 0; i < SPAN_W; ++i) {
            HELD_SPREAD(SRC, PIECE, x[i], now[i])
        }
        _Pragma("unroll") for (int w = 0; w < TILE_W; ++w)
            _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
                float joined = x[w * STRIDE_W][k];
                _Pragma("unroll") for (int i = 1; i < KERNEL_W; ++i)
                    joined = JOIN(joined, x[w * STRIDE_W + i * DILATION_W][k]);
                _Pragma("unroll") for (int r = 0; r < TILE_H; ++r) {
                    const int below = s * STEP - r * STRIDE_H;  // where in row r's window
                    if (below >= 0 && below % DILATION_H == 0 && below <= (KERNEL_H - 1) * DILATION_H)
                        value[r][w][k] = JOIN(value[r][w][k], joined);
                }
            }
    }
#if POOL_MAX && PADDED
    uint images = rest;
    PL_SPLIT(images, blocks, block)
    const int channel = (int)block * pool.run + c;
#endif
    _Pragma("unroll") for (int r = 0; r < TILE_H; ++r) {
        if (h0 + r >= pool.out_h) continue;
#if !POOL_MAX && !WHOLE
        const int above = top + r * STRIDE_H;
#if COUNT_PAD
        const int rows = min(above + KERNEL_H, pool.in_h + pool.end_h) - above;
#else
        int rows = 0;
        _Pragma("unroll") for (int k = 0; k < KERNEL_H; ++k)
            rows += (uint)(above + k * DILATION_H) < (uint)pool.in_h ? 1 : 0;
#endif
#endif
        const idx_t to = (((idx_t)rest * pool.out_h + h0 + r) * pool.out_w + w0) * pool.run + c;
        _Pragma("unroll") for (int w = 0; w < TILE_W; ++w) {
            if (w0 + w >= pool.out_w) continue;
#if !POOL_MAX && !WHOLE
            const int before = left + w * STRIDE_W;
#if COUNT_PAD
            const int columns = min(before + KERNEL_W, pool.in_w + pool.end_w) - before;
#else
            int columns = 0;
            _Pragma("unroll") for (int k = 0; k < KERNEL_W; ++k)
                columns += (uint)(before + k * DILATION_W) < (uint)pool.in_w ? 1 : 0;
#endif
#endif
            float y[PIECE];
            _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
                y[k] = POOL_FINISH(value[r][w][k], rows * columns);
#if POOL_MAX && PADDED  // padding is zero, also where a dilated window steps over all of src
                if (channel + k >= pool.channels) y[k] = 0.0f;
#endif
            }
            HELD_STORE(DST, PIECE, dst, to + (idx_t)w * pool.run, y)
        }
    }
}
