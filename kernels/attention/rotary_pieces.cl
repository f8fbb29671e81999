// Rotary position embedding (rotary_rows.cl says what it computes), pieces of columns a work-item.
//
// Tensors: SRC, DST, COSINES and SINES of rows whose columns lie side by side, without padding.  A row is named by three
// numbers, the last one counting fastest, which lie strides[t][0 .. 2] apart in tensor t (SRC, COSINES, SINES, DST) from
// offsets[t] on, 0 where a table is repeated.  All these are multiples of PIECE, which divides HALF and REST.
//
// A work-item turns PIECE columns of the first half and those of the second half that belong to them, or PIECE columns of
// whole pairs (INTERLEAVED).  Behind these work-items of a row come those that copy the REST columns, which are not
// turned.  `pieces`, `inner` and `middle` are what an id is divided by: work-items of a row, and how far the last two of
// its numbers count.
#ifndef PIECE
#define PIECE 4  // columns of an access: 1, 2, 4, 8
#endif
#include "common/pieces.clh"

#ifndef HALF
#define HALF 8  // columns that are turned, by two
#define REST 0  // columns behind them
#define INTERLEAVED 0  // whether pairs are neighbours
#endif
#define FIRST (INTERLEAVED ? 2 * HALF : HALF)  // columns that a work-item begins with
#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define COSINES_DTYPE f32
#define SINES_DTYPE f32
#define DST_DTYPE f32
#endif

typedef struct {
    uint offsets[4], strides[4][3];
} rotary_arg;

#define ROW_OF(t) (at.offsets[t] + outer * at.strides[t][0] + second * at.strides[t][1] + third * at.strides[t][2])

__kernel void rotary_pieces(__global const STORAGE_T(SRC)* restrict src,
                            __global const STORAGE_T(COSINES)* restrict cosines,
                            __global const STORAGE_T(SINES)* restrict sines, __global STORAGE_T(DST)* restrict dst,
                            const rotary_arg at, const divisor pieces, const divisor inner, const divisor middle,
                            const uint places) {
    uint outer = (uint)get_global_id(0);
    if (outer >= places) return;
    PL_SPLIT(outer, pieces, piece)
    PL_SPLIT(outer, inner, third)
    PL_SPLIT(outer, middle, second)
    const uint column = piece * PIECE, from = ROW_OF(0) + column, to = ROW_OF(3) + column;
    float x[PIECE], y[PIECE];
    if (REST && column >= FIRST) {
        PIECE_LOAD(SRC, x, src, from + 2 * HALF - FIRST)
        PIECE_STORE(DST, x, dst, to + 2 * HALF - FIRST)
        return;
    }
    const uint cosine = ROW_OF(1) + column, sine = ROW_OF(2) + column;
    float c[2][PIECE], s[2][PIECE];
    PIECE_LOAD(SRC, x, src, from)
#if INTERLEAVED
    PIECE_LOAD(COSINES, c[0], cosines, cosine)
    PIECE_LOAD(SINES, s[0], sines, sine)
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) y[k] = k & 1 ? x[k ^ 1] : -x[k ^ 1];
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) x[k] = fma(y[k], s[0][k], x[k] * c[0][k]);
    PIECE_STORE(DST, x, dst, to)
#else
    PIECE_LOAD(SRC, y, src, from + HALF)
    PIECE_LOAD(COSINES, c[0], cosines, cosine)
    PIECE_LOAD(COSINES, c[1], cosines, cosine + HALF)
    PIECE_LOAD(SINES, s[0], sines, sine)
    PIECE_LOAD(SINES, s[1], sines, sine + HALF)
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
        const float turned = fma(y[k], -s[0][k], x[k] * c[0][k]);
        y[k] = fma(x[k], s[1][k], y[k] * c[1][k]);
        x[k] = turned;
    }
    PIECE_STORE(DST, x, dst, to)
    PIECE_STORE(DST, y, dst, to + HALF)
#endif
}
