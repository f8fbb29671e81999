// Convolution as register tiles along rows, for CPUs: TILE_PIXELS neighbouring positions by TILE_VECTORS vectors of output
// channels.  The positions of a tile lie at distances that are constants of the program, so that their addresses cost
// nothing.
//
//   dst[n, o, h, w] = activation(sum over i, kh, kw of src[n, i, h * sh + kh * dh, w * sw + kw * dw] * wei[o, i, kh, kw]
//                                + bias[o] + res[n, o, h, w])
//
// Tensors: SRC, with its border, as (outer, rows, columns, RUN): RUN channels lie side by side, all of them (n, h, w, c)
// or a block (n, c / 16, h, w, 16); DST and RES in the same way with DST_RUN; WEI (oc, ic, kd, kh, kw) at WEI_OFFSET;
// BIAS (oc).  Assumed of WEI: VECTOR output channels from a multiple of VECTOR on lie side by side, its padding is zero.
//
// Windows may leave the source.  EDGES 0: they do not; a copy of it has a border.  EDGES 1: rows of the kernel that lie
// outside are left out, and of a row of positions at most the first leaves it on the left and the last on the right;
// these read `zeros`, RUN of them, in place of the source.
//
// CHANNELS, where there are few: as many input channels, unrolled.
//
// A unit is one tile of positions; those of a row, of all rows and images follow one another.  A row's last tile ends
// with the row: it may overlap the one before, and stores only what that one does not.  A kernel of one position takes
// the positions of an image, or of all, as one row.  Global ids: `chunk` neighbouring units and a tile of channels, the
// one that varies faster given by `channels_first`.  The sum is kept in f32, in the order of kh, kw, i.
#include "common/epilogue.clh"

#ifndef SRC_DTYPE  // on its own: f32, (n, h, w, c), weights in blocks of 16 output channels
#define SRC_DTYPE f32
#define WEI_DTYPE f32
#define WEI_OFFSET(o, i, d, h, w) (PLAIN_OFFSET5(wei, (o) >> 4, i, d, h, w) + ((o) & 15))
#define DST_DTYPE f32
#endif

#ifndef VECTOR
#define VECTOR 8  // output channels in a vector: 4, 8, 16
#endif
#ifndef TILE_VECTORS
#define TILE_VECTORS 2  // vectors a work-item: 1, 2, 3, 4
#endif
#ifndef TILE_PIXELS
#define TILE_PIXELS 6  // positions a work-item: 1 to 16
#endif
#ifndef UNROLL
#define UNROLL 2  // input channels a step of the main loop: 1, 2, 4
#endif
#ifndef RUN
#define RUN 64
#endif
#ifndef DST_RUN
#define DST_RUN 64
#endif
#ifndef STEP
#define STEP RUN  // elements from a position's window to the next one's
#endif
#ifndef EDGES
#define EDGES 0
#endif
#ifndef SHORT_EPILOGUE
#define SHORT_EPILOGUE 0  // 1: what follows the sum is short enough to be repeated for each sum of a tile
#endif

typedef struct {
    int ic, oc, padded_oc;      // padded_oc: of wei
    int kernel_h, kernel_w;
    int tap_h, tap_w;           // elements from one row of the kernel to the next, one column
    int row;                    // elements from one row of positions to the next, in src
    int block;                  // from one block of RUN channels to the next
    int image;                  // from one image to the next
    int origin;                 // to where the first window begins: at or before src
    int rows, columns;          // of positions, in an image
    int dst_blocks;             // of DST_RUN channels
    int height, width;          // of src, for EDGES
    int stride_h, stride_w, dilation_h, dilation_w, begin_h, begin_w;
    int tiles, units, chunk;    // tiles in a row, units in all, units a work-item
    int channels_first;
} rows_arg;

#define TILE_CHANNELS (VECTOR * TILE_VECTORS)

typedef COMPUTE_VT(WEI, VECTOR) vec;

#if EDGES
#define ZEROS_PARAMETER , __global const STORAGE_T(SRC)* restrict zeros
// The position is a constant where this is used, so that only the outer ones read elsewhere.
#define SOURCE(p, i) \
    LOAD(SRC, (p) == 0 ? left_from : (p) == TILE_PIXELS - 1 ? right_from : from, \
         ((p) == 0 || (p) == TILE_PIXELS - 1 ? 0 : (p)*STEP) + (i))
#else
#define ZEROS_PARAMETER
#define SOURCE(p, i) LOAD(SRC, from, (p)*STEP + (i))
#endif

#define ADD_CHANNEL(i)                                                                                   \
    {                                                                                                    \
        vec weights[TILE_VECTORS];                                                                       \
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) weights[v] =                            \
            LOADV(WEI, VECTOR, wei, wei_at[v] + (i)*wei_step);                                           \
        _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p) {                                        \
            const float x = SOURCE(p, i);                                                                \
            _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] += x * weights[v];        \
        }                                                                                                \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((intel_vec_len_hint(1)))
void conv_fwd_rows(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS ZEROS_PARAMETER,
                   const rows_arg a) {
    const int part = (int)get_global_id(a.channels_first), first_unit = part * a.chunk;
    const int last_unit = min(first_unit + a.chunk, a.units);
    const idx_t o0 = (idx_t)get_global_id(1 - a.channels_first) * TILE_CHANNELS;
    const idx_t wei_step = WEI_OFFSET(0, 1, 0, 0, 0) - WEI_OFFSET(0, 0, 0, 0, 0);
    int tile = first_unit % a.tiles, h = first_unit / a.tiles % a.rows, n = first_unit / a.tiles / a.rows;

    for (int unit = first_unit; unit < last_unit; ++unit) {
        const idx_t wanted = (idx_t)tile * TILE_PIXELS;
        const idx_t first = min(wanted, (idx_t)a.columns - TILE_PIXELS);

        vec acc[TILE_PIXELS][TILE_VECTORS];
        _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p)
            _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] = (vec)(0.0f);

        const idx_t base = src_arg.offset + a.origin + n * (idx_t)a.image + h * (idx_t)a.row + first * STEP;
        for (int kh = 0; kh < a.kernel_h; ++kh) {
#if EDGES
            const int y = h * a.stride_h - a.begin_h + kh * a.dilation_h;
            if (y < 0 || y >= a.height) continue;
#endif
            for (int kw = 0; kw < a.kernel_w; ++kw) {
                __global const STORAGE_T(SRC)* from = src + base + kh * (idx_t)a.tap_h + kw * (idx_t)a.tap_w;
#if EDGES
                const int x_first = (int)first * a.stride_w - a.begin_w + kw * a.dilation_w;
                const int left = x_first < 0, right = x_first + (TILE_PIXELS - 1) * a.stride_w >= a.width;
                __global const STORAGE_T(SRC)* left_from = left ? zeros : from;
                __global const STORAGE_T(SRC)* right_from = right ? zeros : from + (TILE_PIXELS - 1) * STEP;
#endif
                // Beyond the last vector of weights the last one stands in: its sums are not stored.
                idx_t wei_at[TILE_VECTORS];
                for (int v = 0; v < TILE_VECTORS; ++v)
                    wei_at[v] = WEI_OFFSET(min(o0 + v * VECTOR, (idx_t)a.padded_oc - VECTOR), 0, 0, kh, kw);
#ifdef CHANNELS
                _Pragma("unroll") for (int i = 0; i < CHANNELS; ++i) ADD_CHANNEL(i)
#else
                for (int rest = a.ic; rest > 0; rest -= RUN) {
                    const int count = min(rest, RUN);
                    int i = 0;
                    for (; i + UNROLL <= count; i += UNROLL) {
                        _Pragma("unroll") for (int u = 0; u < UNROLL; ++u) ADD_CHANNEL(i + u)
                    }
#if UNROLL > 1
                    for (; i < count; ++i) ADD_CHANNEL(i)
#endif
                    from += a.block;
#if EDGES
                    if (!left) left_from += a.block;
                    if (!right) right_from += a.block;
#endif
                    for (int v = 0; v < TILE_VECTORS; ++v) wei_at[v] += RUN * wei_step;
                }
#endif
            }
        }

        const int stored = (int)(wanted - first);  // positions that the tile before this one stores
        // Of vector v, position 0 of the row.
#define DST_ROW(v) \
    ((((n * (idx_t)a.dst_blocks + (o0 + (v)*VECTOR) / DST_RUN) * a.rows + h) * a.columns) * DST_RUN + \
     (o0 + (v)*VECTOR) % DST_RUN)
#if SHORT_EPILOGUE
        if (o0 + TILE_CHANNELS <= a.oc) {
            _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) {
                const idx_t to = DST_ROW(v) + first * DST_RUN;
                _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p) {
                    if (p < stored) continue;
                    const vec y = EPILOGUE_V(VECTOR, acc[p][v], o0 + v * VECTOR, res_arg.offset + to + p * DST_RUN);
                    STOREV(DST, VECTOR, dst, dst_arg.offset + to + p * DST_RUN, y);
                }
            }
        } else
#endif
        {
            // Through memory, so that what follows is a loop: it is long where the activation is.
            vec sums[TILE_PIXELS][TILE_VECTORS];
            _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p)
                _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) sums[p][v] = acc[p][v];
            for (int v = 0; v < TILE_VECTORS; ++v) {
                const idx_t o = o0 + v * VECTOR;
                if (o >= (idx_t)a.dst_blocks * DST_RUN) break;
                const idx_t to = DST_ROW(v);
                for (int p = stored; p < TILE_PIXELS; ++p) {
                    const idx_t at = to + (first + p) * DST_RUN;
                    if (o + VECTOR <= a.oc) {
                        const vec y = EPILOGUE_V(VECTOR, sums[p][v], o, res_arg.offset + at);
                        STOREV(DST, VECTOR, dst, dst_arg.offset + at, y);
                        continue;
                    }
                    const float* sum = (const float*)&sums[p][v];
                    for (int j = 0; j < VECTOR && o + j < (idx_t)a.dst_blocks * DST_RUN; ++j) {
                        float y = 0.0f;  // of padding
                        if (o + j < a.oc) y = EPILOGUE(sum[j], o + j, res_arg.offset + at + j);
                        STORE(DST, dst, dst_arg.offset + at + j, y);
                    }
                }
            }
        }
        if (++tile == a.tiles) {
            tile = 0;
            if (++h == a.rows) h = 0, ++n;
        }
    }
}
