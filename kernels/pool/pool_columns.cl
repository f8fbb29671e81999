// Pooling, channels first, a piece of several rows a work-item.
//
//   max:  dst[p, q] = max over k of src[p, q * stride - begin + k * dilation], padding never counts; NaN wins
//   avg:  dst[p, q] = (sum over k of src[...]) / count; count = the inputs seen, or, with COUNT_PAD, the positions
//         of the window inside [-begin, in + end)
// with q, k positions in (h, w), p the planes of all images.
//
// Tensors: SRC (p, in_h, in_w) and DST (p, out_h, out_w), dense.
//
// A work-item computes TILE_H rows of TILE_W columns; TILE_W divides out_w.  Kernel size, stride and dilation are
// constants: a row of src is read once, by accesses of ACCESS columns where most of one is wanted, joined along w, and
// then joined to each row of dst that wants it.  All that a work-item reads is on its way before the first of it is
// used.  ACCESS divides in_w and TILE_W * STRIDE_W, so that an access lies inside of a row or outside, and where in an
// access a window begins is a constant too.  Work-items are numbered by pieces, tiles of rows, planes; `pieces` and
// `tiles` are how many there are.
#include "common/held.clh"
#include "pool/join.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef STRIDE_H
#define STRIDE_H 2  // the op's: 1 to 4
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
#ifndef BEGIN_W
#define BEGIN_W 1  // columns of padding before the first: 0 to 16
#endif
#ifndef TILE_H
#define TILE_H 4  // rows a work-item: 1, 2, 4
#endif
#ifndef TILE_W
#define TILE_W 2  // columns a work-item: 1, 2, 4, 8
#endif
#ifndef ACCESS
#define ACCESS 4  // columns of src an access: 1, 2, 4, 8
#endif
#define SPAN_H ((TILE_H - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1)  // rows of src that a tile reaches
#define SPAN_W ((TILE_W - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1)  // and columns
// A row in registers: accesses, the first of which begins LEAD columns before the first window's begin + BEGIN_W.
#define LEAD ((BEGIN_W + ACCESS - 1) / ACCESS * ACCESS)
#define FIRST (LEAD - BEGIN_W)  // where in it the first window begins
#define LAST (FIRST + SPAN_W)   // and behind the last one's end
#define ACCESSES ((LAST + ACCESS - 1) / ACCESS)
// Access a is made whole if more than a quarter of it is wanted, else by single columns.
#define FROM(a) ((a)*ACCESS > FIRST ? (a)*ACCESS : FIRST)
#define TO(a) ((a)*ACCESS + ACCESS < LAST ? (a)*ACCESS + ACCESS : LAST)
#define IS_WHOLE(a) ((TO(a) - FROM(a)) * 4 > ACCESS)
#define MOST_SINGLES (ACCESS / 4 > 0 ? ACCESS / 4 : 1)  // of an access that is not made whole

typedef struct {
    int in_h, in_w, out_h, out_w;
    int begin_h, end_h, end_w;
} pool_arg;

__kernel void pool_columns(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                           const pool_arg pool, const divisor pieces, const divisor tiles, const int all) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)all) return;
    PL_SPLIT(rest, pieces, piece)
    PL_SPLIT(rest, tiles, tile)
    const int w0 = (int)piece * TILE_W, h0 = (int)tile * TILE_H, plane = (int)rest;
    const int top = h0 * STRIDE_H - pool.begin_h, left = w0 * STRIDE_W - LEAD;
    HELD_T(SRC, ACCESS) whole[SPAN_H][ACCESSES];
    HELD_T(SRC, 1) single[SPAN_H][ACCESSES][MOST_SINGLES];
    int from = (plane * pool.in_h + top) * pool.in_w + left;
    _Pragma("unroll") for (int s = 0; s < SPAN_H; ++s, from += pool.in_w) {
        const bool there = (uint)(top + s) < (uint)pool.in_h;
        _Pragma("unroll") for (int a = 0; a < ACCESSES; ++a) {
            if (IS_WHOLE(a)) {
                whole[s][a] = POOL_NONE(SRC, ACCESS);
                if (there && (uint)(left + a * ACCESS) < (uint)pool.in_w)
                    whole[s][a] = HELD_LOAD(SRC, ACCESS, src, from + a * ACCESS);
            } else {
                _Pragma("unroll") for (int k = 0; k < MOST_SINGLES; ++k) {
                    single[s][a][k] = POOL_NONE(SRC, 1);
                    if (FROM(a) + k < TO(a) && there && (uint)(left + FROM(a) + k) < (uint)pool.in_w)
                        single[s][a][k] = HELD_LOAD(SRC, 1, src, from + FROM(a) + k);
                }
            }
        }
    }
    float joined[SPAN_H][TILE_W];
    _Pragma("unroll") for (int s = 0; s < SPAN_H; ++s) {
        float x[ACCESSES * ACCESS];
        _Pragma("unroll") for (int a = 0; a < ACCESSES; ++a) {
            if (IS_WHOLE(a)) {
                HELD_SPREAD(SRC, ACCESS, (x + a * ACCESS), whole[s][a])
            } else {
                _Pragma("unroll") for (int k = 0; k < MOST_SINGLES; ++k)
                    if (FROM(a) + k < TO(a)) {
                        HELD_SPREAD(SRC, 1, (x + FROM(a) + k), single[s][a][k])
                    }
            }
        }
        _Pragma("unroll") for (int w = 0; w < TILE_W; ++w) {
            joined[s][w] = x[FIRST + w * STRIDE_W];
            _Pragma("unroll") for (int k = 1; k < KERNEL_W; ++k)
                joined[s][w] = JOIN(joined[s][w], x[FIRST + w * STRIDE_W + k * DILATION_W]);
        }
    }
    _Pragma("unroll") for (int r = 0; r < TILE_H; ++r) {
        if (h0 + r >= pool.out_h) continue;
        float value[TILE_W];
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
        _Pragma("unroll") for (int w = 0; w < TILE_W; ++w) {
            value[w] = joined[r * STRIDE_H][w];
            _Pragma("unroll") for (int k = 1; k < KERNEL_H; ++k)
                value[w] = JOIN(value[w], joined[r * STRIDE_H + k * DILATION_H][w]);
#if !POOL_MAX && !WHOLE
            const int before = left + FIRST + w * STRIDE_W;
#if COUNT_PAD
            const int columns = min(before + KERNEL_W, pool.in_w + pool.end_w) - before;
#else
            int columns = 0;
            _Pragma("unroll") for (int k = 0; k < KERNEL_W; ++k)
                columns += (uint)(before + k * DILATION_W) < (uint)pool.in_w ? 1 : 0;
#endif
#endif
            value[w] = POOL_FINISH(value[w], rows * columns);
        }
        const int to = (plane * pool.out_h + h0 + r) * pool.out_w + w0;
        HELD_STORE(DST, TILE_W, dst, to, value)
    }
}
