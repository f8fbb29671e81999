// Images of two spatial dimensions to twice their height and width, by linear interpolation along both.
//
//   dst[o, q, c] = the weighted mean of the neighbours of (q + 1/2) / 2 - 1/2 along h and w: a quarter of
//                  src[q / 2 - 1] and three of src[q / 2] where q is even, three of src[q / 2] and one of
//                  src[q / 2 + 1] where it is odd; what would lie outside is the nearest inside
//
// Tensors: SRC (outer, in_h, in_w, run) and DST (outer, 2 in_h, 2 in_w, run), dense: channels last (run all channels),
// in blocks (run a block, outer the blocks of all images) or first (run 1).
//
// A work-item takes TILE_H rows and TILE_W columns of src, of PIECE channels, which divide run, or, where run is 1
// (COLUMNS), of one; there TILE_W divides in_w and is one access.  It reads those around them too, interpolates rows
// along w, and then between them.  All it reads is on its way before the first is used.  Work-items are numbered by
// pieces (1 with COLUMNS), tiles of columns, tiles of rows, outer.
#include "common/held.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef COLUMNS
#define COLUMNS 0  // 1: channels first
#endif
#ifndef TILE_H
#define TILE_H 2  // rows of src a work-item: 1, 2, 4
#endif
#ifndef TILE_W
#define TILE_W 1  // columns of src a work-item: 1, 2, 4 with COLUMNS, else 1, 2
#endif

// Of two neighbours, the second of which has the weight.
#define MIX(first, second, weight) fma(second, weight, (first) * (1.0f - (weight)))

#if COLUMNS
#define DOUBLED (2 * TILE_W)
#if TILE_W == 1
#define STORE_DOUBLED(o, y) HELD_STORE(DST, 2, dst, o, y)
#elif TILE_W == 2
#define STORE_DOUBLED(o, y) HELD_STORE(DST, 4, dst, o, y)
#else
#define STORE_DOUBLED(o, y) HELD_STORE(DST, 8, dst, o, y)
#endif
#endif

__kernel void linear_twice(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                           const int in_h, const int in_w, const int run, const divisor pieces, const divisor columns,
                           const divisor tiles, const int all) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)all) return;
    PL_SPLIT(rest, pieces, piece)
    PL_SPLIT(rest, columns, column)
    PL_SPLIT(rest, tiles, tile)
    const int w0 = (int)column * TILE_W, h0 = (int)tile * TILE_H, row = in_w * run;
    const int from = (int)rest * in_h * row, to = ((int)rest * in_h + h0) * 4 * row;
    int at[TILE_H + 2];  // rows h0 - 1 ... h0 + TILE_H
    _Pragma("unroll") for (int r = 0; r < TILE_H + 2; ++r) at[r] = from + clamp(h0 + r - 1, 0, in_h - 1) * row;
#if COLUMNS
    const int before = max(w0 - 1, 0), behind = min(w0 + TILE_W, in_w - 1);
    HELD_T(SRC, 1) edge[TILE_H + 2][2];
    HELD_T(SRC, TILE_W) held[TILE_H + 2];
    _Pragma("unroll") for (int r = 0; r < TILE_H + 2; ++r) {
        edge[r][0] = HELD_LOAD(SRC, 1, src, at[r] + before);
        held[r] = HELD_LOAD(SRC, TILE_W, src, at[r] + w0);
        edge[r][1] = HELD_LOAD(SRC, 1, src, at[r] + behind);
    }
    float wide[TILE_H + 2][DOUBLED];
    _Pragma("unroll") for (int r = 0; r < TILE_H + 2; ++r) {
        float x[TILE_W + 2];
        HELD_SPREAD(SRC, 1, x, edge[r][0])
        HELD_SPREAD(SRC, TILE_W, (x + 1), held[r])
        HELD_SPREAD(SRC, 1, (x + TILE_W + 1), edge[r][1])
        _Pragma("unroll") for (int k = 0; k < TILE_W; ++k) {
            wide[r][2 * k] = MIX(x[k], x[k + 1], 0.75f);
            wide[r][2 * k + 1] = MIX(x[k + 1], x[k + 2], 0.25f);
        }
    }
    _Pragma("unroll") for (int r = 0; r < 2 * TILE_H; ++r) {
        if (h0 + r / 2 >= in_h) continue;
        float y[DOUBLED];
        _Pragma("unroll") for (int k = 0; k < DOUBLED; ++k)
            y[k] = MIX(wide[(r + 1) / 2][k], wide[(r + 1) / 2 + 1][k], r % 2 ? 0.25f : 0.75f);
        STORE_DOUBLED(to + r * 2 * row + 2 * w0, y)
    }
#else
    const int c = (int)piece * PIECE;
    HELD_T(SRC, PIECE) held[TILE_H + 2][TILE_W + 2];
    _Pragma("unroll") for (int r = 0; r < TILE_H + 2; ++r)
        _Pragma("unroll") for (int i = 0; i < TILE_W + 2; ++i)
            held[r][i] = HELD_LOAD(SRC, PIECE, src, at[r] + clamp(w0 + i - 1, 0, in_w - 1) * run + c);
    float above[2 * TILE_W][PIECE];  // of the row before
    _Pragma("unroll") for (int r = 0; r < TILE_H + 2; ++r) {
        float x[TILE_W + 2][PIECE], wide[2 * TILE_W][PIECE];
        _Pragma("unroll") for (int i = 0; i < TILE_W + 2; ++i) {
            HELD_SPREAD(SRC, PIECE, x[i], held[r][i])
        }
        _Pragma("unroll") for (int i = 0; i < 2 * TILE_W; ++i)
            _Pragma("unroll") for (int k = 0; k < PIECE; ++k)
                wide[i][k] = MIX(x[(i + 1) / 2][k], x[(i + 1) / 2 + 1][k], i % 2 ? 0.25f : 0.75f);
        // Between row h0 + r - 2 and this one lie the odd row of the former and the even row of this one.
        _Pragma("unroll") for (int odd = 1; odd >= 0; --odd) {
            const int h = 2 * r - 2 - odd;  // counted from 2 h0
            if (r == 0 || h < 0 || h >= 2 * TILE_H || h0 + h / 2 >= in_h) continue;
            _Pragma("unroll") for (int i = 0; i < 2 * TILE_W; ++i) {
                if (w0 + i / 2 >= in_w) continue;
                float y[PIECE];
                _Pragma("unroll") for (int k = 0; k < PIECE; ++k)
                    y[k] = MIX(above[i][k], wide[i][k], odd ? 0.25f : 0.75f);
                HELD_STORE(DST, PIECE, dst, to + (h * 2 * in_w + 2 * w0 + i) * run + c, y)
            }
        }
        _Pragma("unroll") for (int i = 0; i < 2 * TILE_W; ++i)
            _Pragma("unroll") for (int k = 0; k < PIECE; ++k) above[i][k] = wide[i][k];
    }
#endif
}
