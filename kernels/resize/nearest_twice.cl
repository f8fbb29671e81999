// Images of two spatial dimensions to twice their height and width, each element repeated.
//
//   dst[o, h, w, c] = src[o, h / 2, w / 2, c]
//
// Tensors: SRC (outer, in_h, in_w, run) and DST (outer, 2 in_h, 2 in_w, run) of elements of BYTES bytes, dense:
// channels last (run all channels), in blocks (run a block, outer the blocks of all images) or first (run 1).  Where
// run is a multiple of several elements, an element may stand for them.
//
// A work-item reads TILE_H rows of src, all on their way before the first is used: PIECE elements of a column, which
// divides run, or, where run is 1 (COLUMNS), PIECE / 2 columns, which divide in_w; it writes pieces of PIECE elements,
// each in COPIES of the two rows that it belongs in (one: the row below is of other work-items, so that neighbours
// write one row after the other).  Neighbours have the next piece of the row; `pieces`, `columns` (with COLUMNS
// 2 / COPIES) and `tiles` are what a work-item id is divided by.
#ifndef BYTES
#define BYTES 4  // of an element: 1, 2, 4, 8
#endif
#include "common/pieces.clh"

#ifndef COLUMNS
#define COLUMNS 0  // 1: pieces along w
#endif
#ifndef TILE_H
#define TILE_H 1  // rows of src a work-item: 1, 2, 4
#endif
#ifndef COPIES
#define COPIES 2  // rows of dst for each: 2, with COLUMNS also 1
#endif

#if COLUMNS
#if PIECE == 2
typedef RAW part;
#define SPREAD_PART(y, v) (y)[0] = v;
#else
#if BYTES == 1
#define RAW_LETTERS uchar
#elif BYTES == 2
#define RAW_LETTERS ushort
#elif BYTES == 4
#define RAW_LETTERS uint
#else
#define RAW_LETTERS ulong
#endif
#if PIECE == 4
typedef PL_CAT(RAW_LETTERS, 2) part;
#define SPREAD_PART(y, v) PL_SPREAD_2(y, v)
#elif PIECE == 8
typedef PL_CAT(RAW_LETTERS, 4) part;
#define SPREAD_PART(y, v) PL_SPREAD_4(y, v)
#else
typedef PL_CAT(RAW_LETTERS, 8) part;
#define SPREAD_PART(y, v) PL_SPREAD_8(y, v)
#endif
#endif
#endif

__kernel void nearest_twice(__global const RAW* restrict src, __global RAW* restrict dst, const int in_h,
                            const int in_w, const int run, const divisor pieces, const divisor columns,
                            const divisor tiles, const int all) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)all) return;
    PL_SPLIT(rest, pieces, piece)
    PL_SPLIT(rest, columns, column)
    PL_SPLIT(rest, tiles, tile)
    const int row = in_w * run, h0 = (int)tile * TILE_H;
#if COLUMNS
    const int from = ((int)rest * in_h + h0) * row + (int)piece * (PIECE / 2);
    const int to = (((int)rest * in_h + h0) * 2 + (int)column) * 2 * row + (int)piece * PIECE;
    part x[TILE_H];
    _Pragma("unroll") for (int r = 0; r < TILE_H; ++r) {
        x[r] = (part)(0);
        if (h0 + r < in_h) x[r] = *(__global const part*)(src + from + r * row);
    }
    _Pragma("unroll") for (int r = 0; r < TILE_H; ++r) {
        if (h0 + r >= in_h) continue;
        RAW once[PIECE / 2], twice[PIECE];
        SPREAD_PART(once, x[r])
        _Pragma("unroll") for (int k = 0; k < PIECE; ++k) twice[k] = once[k / 2];
        _Pragma("unroll") for (int copy = 0; copy < COPIES; ++copy) {
            RAW_STORE(twice, dst, to + (r * 2 + copy) * 2 * row)
        }
    }
#else
    const int c = (int)piece * PIECE, from = (((int)rest * in_h + h0) * in_w + (int)column) * run + c;
    const int to = ((int)rest * in_h + h0) * 4 * row + (int)column * 2 * run + c;
    RAW x[TILE_H][PIECE];
    _Pragma("unroll") for (int r = 0; r < TILE_H; ++r) {
        if (h0 + r < in_h) {
            RAW_LOAD(x[r], src, from + r * row)
        }
    }
    _Pragma("unroll") for (int r = 0; r < TILE_H; ++r) {
        if (h0 + r >= in_h) continue;
        _Pragma("unroll") for (int copy = 0; copy < 4; ++copy) {
            RAW_STORE(x[r], dst, to + (r * 2 + copy / 2) * 2 * row + copy % 2 * run)
        }
    }
#endif
}
