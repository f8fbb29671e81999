// The gradient of a maximum pool by its input, channels innermost or in blocks, a piece of channels of one position a
// work-item, in two launches.
//
//   dst[o, q, c] = sum of grad[o, p, c] over the windows p whose maximum is src[o, q, c]; of equal values the first one
//                  counts, a NaN is larger than any number
// with q, p positions in (h, w); window p sees p * stride - begin + k * dilation.
//
// pool_backward_taps: which k the maximum of each window is, kh * KERNEL_W + kw, a byte, at the window's place in grad;
// NO_TAP where a window sees no input.  pool_backward_pieces: dst, windows in their order, so that results repeat.
//
// Tensors: SRC and DST (o, in_h, in_w, run), GRAD (o, out_h, out_w, run), dense: channels last (run all channels, o
// images) or in blocks (run a block, o the blocks of all images).
//
// PIECE divides run.  Kernel size, stride and dilation are constants.  Work-items are numbered by pieces, columns, rows, o.
#include "common/held.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define GRAD_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef PIECE
#define PIECE 4  // channels of an access: 1, 2, 4, 8
#endif
#ifndef KERNEL_H
#define KERNEL_H 3  // the op's
#endif
#ifndef KERNEL_W
#define KERNEL_W 3  // the op's
#endif
#ifndef STRIDE_H
#define STRIDE_H 2  // the op's
#endif
#ifndef STRIDE_W
#define STRIDE_W 2  // the op's
#endif
#ifndef DILATION_H
#define DILATION_H 1  // the op's
#endif
#ifndef DILATION_W
#define DILATION_W 1  // the op's
#endif
#define REACH_H ((KERNEL_H - 1) * DILATION_H)
#define REACH_W ((KERNEL_W - 1) * DILATION_W)
#define WINDOWS_H (REACH_H / STRIDE_H + 1)  // rows of windows that may hold a position
#define WINDOWS_W (REACH_W / STRIDE_W + 1)
#define NO_TAP 255u

// Bytes of a piece, four to a word.
#if PIECE == 8
#define WORDS 2
#define LOAD_TAPS(p, o, words) { const uint2 both = *(__global const uint2*)((p) + (o)); (words)[0] = both.s0; (words)[1] = both.s1; }
#define STORE_TAPS(p, o, words) *(__global uint2*)((p) + (o)) = (uint2)((words)[0], (words)[1])
#else
#define WORDS 1
#if PIECE == 4
#define TAPS_T uint
#elif PIECE == 2
#define TAPS_T ushort
#else
#define TAPS_T uchar
#endif
#define LOAD_TAPS(p, o, words) (words)[0] = *(__global const TAPS_T*)((p) + (o));
#define STORE_TAPS(p, o, words) *(__global TAPS_T*)((p) + (o)) = (TAPS_T)(words)[0]
#endif

typedef struct {
    int in_h, in_w, out_h, out_w, run, begin_h, begin_w;
} pool_arg;

__kernel void pool_backward_taps(__global const STORAGE_T(SRC)* restrict src, __global uchar* restrict taps,
                                 const pool_arg pool, const divisor pieces, const divisor across, const divisor down,
                                 const int all) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)all) return;
    PL_SPLIT(rest, pieces, piece)
    PL_SPLIT(rest, across, column)
    PL_SPLIT(rest, down, row)
    const int c = (int)piece * PIECE;
    const int top = (int)row * STRIDE_H - pool.begin_h, left = (int)column * STRIDE_W - pool.begin_w;
    float best[PIECE];
    uint at[PIECE];
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
        best[k] = 0.0f;
        at[k] = NO_TAP;
    }
    _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh) {
        const int h = top + kh * DILATION_H;
        const idx_t from = (((idx_t)rest * pool.in_h + h) * pool.in_w + left) * pool.run + c;
        HELD_T(SRC, PIECE) held[KERNEL_W];
        _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw) {
            held[kw] = HELD_ZERO(SRC, PIECE);
            if ((uint)h < (uint)pool.in_h && (uint)(left + kw * DILATION_W) < (uint)pool.in_w)
                held[kw] = HELD_LOAD(SRC, PIECE, src, from + (idx_t)(kw * DILATION_W) * pool.run);
        }
        _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw) {
            const bool there = (uint)h < (uint)pool.in_h && (uint)(left + kw * DILATION_W) < (uint)pool.in_w;
            float x[PIECE];
            HELD_SPREAD(SRC, PIECE, x, held[kw])
            _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
                const bool more = at[k] == NO_TAP || x[k] > best[k] || (isnan(x[k]) && !isnan(best[k]));
                if (there && more) {
                    best[k] = x[k];
                    at[k] = (uint)(kh * KERNEL_W + kw);
                }
            }
        }
    }
    uint words[WORDS];
    _Pragma("unroll") for (int i = 0; i < WORDS; ++i) {
        words[i] = 0;
        _Pragma("unroll") for (int k = 0; k < PIECE && k < 4; ++k) words[i] |= at[4 * i + k] << (8 * k);
    }
    STORE_TAPS(taps, (((idx_t)rest * pool.out_h + row) * pool.out_w + column) * pool.run + c, words);
}

__kernel void pool_backward_pieces(__global const uchar* restrict taps, __global const STORAGE_T(GRAD)* restrict grad,
                                   __global STORAGE_T(DST)* restrict dst, const pool_arg pool, const divisor pieces,
                                   const divisor across, const divisor down, const int all) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)all) return;
    PL_SPLIT(rest, pieces, piece)
    PL_SPLIT(rest, across, column)
    PL_SPLIT(rest, down, row)
    const int c = (int)piece * PIECE;
    const int y = (int)row + pool.begin_h, x = (int)column + pool.begin_w;  // within the padded input
    const int first_h = max(0, y - REACH_H + STRIDE_H - 1) / STRIDE_H;
    const int first_w = max(0, x - REACH_W + STRIDE_W - 1) / STRIDE_W;
    float sum[PIECE];
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) sum[k] = 0.0f;
    _Pragma("unroll") for (int j = 0; j < WINDOWS_H; ++j) {
        const int ph = first_h + j, below = y - ph * STRIDE_H;
        const bool row_holds = ph < pool.out_h && below >= 0 && below % DILATION_H == 0;
        const idx_t from = (((idx_t)rest * pool.out_h + ph) * pool.out_w + first_w) * pool.run + c;
        HELD_T(GRAD, PIECE) held[WINDOWS_W];
        uint words[WINDOWS_W][WORDS];
        _Pragma("unroll") for (int i = 0; i < WINDOWS_W; ++i) {
            const int right = x - (first_w + i) * STRIDE_W;
            held[i] = HELD_ZERO(GRAD, PIECE);
            _Pragma("unroll") for (int k = 0; k < WORDS; ++k) words[i][k] = ~0u;
            if (row_holds && first_w + i < pool.out_w && right >= 0 && right % DILATION_W == 0) {
                held[i] = HELD_LOAD(GRAD, PIECE, grad, from + (idx_t)i * pool.run);
                LOAD_TAPS(taps, from + (idx_t)i * pool.run, words[i])
            }
        }
        _Pragma("unroll") for (int i = 0; i < WINDOWS_W; ++i) {
            const uint own = (uint)(below / DILATION_H * KERNEL_W + (x - (first_w + i) * STRIDE_W) / DILATION_W);
            float g[PIECE];
            HELD_SPREAD(GRAD, PIECE, g, held[i])
            _Pragma("unroll") for (int k = 0; k < PIECE; ++k)
                if ((words[i][k / 4] >> (8 * (k % 4)) & 255u) == own) sum[k] += g[k];
        }
    }
    HELD_STORE(DST, PIECE, dst, (((idx_t)rest * pool.in_h + row) * pool.in_w + column) * pool.run + c, sum)
}
