// Images resized by nearest or linear interpolation, one or two spatial dimensions, a piece of several rows a
// work-item.
//
//   nearest:  dst[o, q, c] = src[o, min(floor(q * scale), in - 1), c]
//   linear:   dst[o, q, c] = the weighted mean of the two neighbours of s = max((q + 1/2) * scale - 1/2, 0), with
//             ALIGN_CORNERS s = q * scale, along h and w; q a position (h, w)
// Positions are computed in float, without fused multiply-add, so that they are those of torch.
//
// Tensors: SRC (outer, in_h, in_w, run) and DST (outer, out_h, out_w, run), dense: channels last (run all channels),
// in blocks (run a block, outer the blocks of all images) or first (run 1).  BYTES of an element where nearest.
//
// A work-item computes TILE_H rows of a piece: PIECE channels of a column or, where run is 1 (COLUMNS), PIECE columns;
// PIECE divides run or out_w.  Rows of src that two rows of dst share are read once.  Neighbours have the next piece of
// the row; `pieces`, `columns` (1 with COLUMNS) and `tiles` are what a work-item id is divided by.
#include "common/pieces.clh"
#pragma OPENCL FP_CONTRACT OFF

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef LINEAR
#define LINEAR 1  // 0: nearest
#endif
#ifndef ALIGN_CORNERS
#define ALIGN_CORNERS 0  // linear: 1 maps the first and last elements onto each other
#endif
#ifndef COLUMNS
#define COLUMNS 0  // 1: pieces along w
#endif
#ifndef TILE_H
#define TILE_H 4  // rows a work-item: 1, 2, 4
#endif

#if LINEAR
typedef float element;
typedef struct {
    int place[2];
    float weight[2];
} neighbours;
static inline neighbours neighbours_of(int q, float scale, int in, int out) {
    neighbours result;
    const float s = ALIGN_CORNERS ? (float)q * scale : max(((float)q + 0.5f) * scale - 0.5f, 0.0f);
    const int low = in == out ? q : min((int)s, in - 1);
    result.place[0] = low;
    result.place[1] = in == out ? low : min(low + 1, in - 1);
    result.weight[1] = in == out ? 0.0f : clamp(s - (float)low, 0.0f, 1.0f);
    result.weight[0] = 1.0f - result.weight[1];
    return result;
}
#define STORAGE STORAGE_T(SRC)
#define STORE_ROW(y, o) PIECE_STORE(DST, y, dst, o)
#else
typedef RAW element;
static inline int nearest(int q, float scale, int in) { return min((int)floor((float)q * scale), in - 1); }
#define STORAGE RAW
#define STORE_ROW(y, o) RAW_STORE(y, dst, o)
#endif

// A row of src as the piece sees it, into y: LOAD_ROW(y, its first element).
#if LINEAR && COLUMNS
#define LOAD_ROW(y, o)                                                                                       \
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k)                                                        \
        y[k] = fma(LOAD(SRC, src, (o) + second[k]), weight[k],                                               \
                   LOAD(SRC, src, (o) + first[k]) * (1.0f - weight[k]));
#elif LINEAR
#define LOAD_ROW(y, o)                                                                                       \
    {                                                                                                        \
        float low_[PIECE], high_[PIECE];                                                                     \
        PIECE_LOAD(SRC, low_, src, (o) + first)                                                              \
        PIECE_LOAD(SRC, high_, src, (o) + second)                                                            \
        _Pragma("unroll") for (int k = 0; k < PIECE; ++k)                                                    \
            y[k] = fma(high_[k], weight, low_[k] * (1.0f - weight));                                         \
    }
#elif COLUMNS
#define LOAD_ROW(y, o) _Pragma("unroll") for (int k = 0; k < PIECE; ++k) y[k] = src[(o) + first[k]];
#else
#define LOAD_ROW(y, o) RAW_LOAD(y, src, (o) + first)
#endif

__kernel void resize_pieces(__global const STORAGE* restrict src, __global STORAGE* restrict dst, const float scale_h,
                            const float scale_w, const int in_h, const int in_w, const int out_h, const int out_w,
                            const int run, const divisor pieces, const divisor columns, const divisor tiles,
                            const int items) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)items) return;
    PL_SPLIT(rest, pieces, piece)
#if COLUMNS
    const int w0 = (int)piece * PIECE, c = 0;
#else
    PL_SPLIT(rest, columns, column)
    const int w0 = (int)column, c = (int)piece * PIECE;
#endif
    PL_SPLIT(rest, tiles, tile)
    const int outer = (int)rest, h0 = (int)tile * TILE_H;
#if COLUMNS
    int first[PIECE];
#if LINEAR
    int second[PIECE];
    float weight[PIECE];
#endif
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
#if LINEAR
        const neighbours w = neighbours_of(w0 + k, scale_w, in_w, out_w);
        first[k] = w.place[0];
        second[k] = w.place[1];
        weight[k] = w.weight[1];
#else
        first[k] = nearest(w0 + k, scale_w, in_w);
#endif
    }
#elif LINEAR
    const neighbours w = neighbours_of(w0, scale_w, in_w, out_w);
    const int first = w.place[0] * run + c, second = w.place[1] * run + c;
    const float weight = w.weight[1];
#else
    const int first = nearest(w0, scale_w, in_w) * run + c;
#endif
    const int in_row = in_w * run, out_row = out_w * run, base = outer * in_h * in_row;
    int to = (outer * out_h + h0) * out_row + w0 * run + c, low = -1;
    element top[PIECE];
#if LINEAR
    element bottom[PIECE];
    int high = -1;
#endif
    for (int h = h0; h < min(h0 + TILE_H, out_h); ++h, to += out_row) {
#if LINEAR
        const neighbours at = neighbours_of(h, scale_h, in_h, out_h);
        if (at.place[0] != low) {
            if (at.place[0] == high) {
                _Pragma("unroll") for (int k = 0; k < PIECE; ++k) top[k] = bottom[k];
            } else {
                LOAD_ROW(top, base + at.place[0] * in_row)
            }
            low = at.place[0];
        }
        if (at.place[1] != high) {
            if (at.place[1] == low) {
                _Pragma("unroll") for (int k = 0; k < PIECE; ++k) bottom[k] = top[k];
            } else {
                LOAD_ROW(bottom, base + at.place[1] * in_row)
            }
            high = at.place[1];
        }
        float y[PIECE];
        const int between = at.place[0] != at.place[1];  // else infinity stays what it is
        _Pragma("unroll") for (int k = 0; k < PIECE; ++k)
            y[k] = between ? fma(bottom[k], at.weight[1], top[k] * at.weight[0]) : top[k];
        STORE_ROW(y, to)
#else
        const int from = nearest(h, scale_h, in_h);
        if (from != low) {
            LOAD_ROW(top, base + from * in_row)
            low = from;
        }
        STORE_ROW(top, to)
#endif
    }
}
