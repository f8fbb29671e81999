// Convolution as register tiles along rows, for CPUs: TILE_PIXELS neighbouring positions by TILE_VECTORS vectors of output
// channels.  The positions of a tile lie at distances that are constants of the program, so that their addresses cost
// nothing, and no window leaves the source.
//
//   dst[n, o, h, w] = activation(sum over i, kh, kw of src[n, i, h * sh + kh * dh, w * sw + kw * dw] * wei[o, i, kh, kw]
//                                + bias[o] + res[n, o, h, w])
//
// Tensors: SRC, with its border, as (outer, rows, columns, RUN): RUN channels lie side by side, all of them (n, h, w, c)
// or a block (n, c / 16, h, w, 16); DST and RES in the same way with DST_RUN; WEI (oc, ic, kd, kh, kw) at WEI_OFFSET;
// BIAS (oc).  Assumed of WEI: VECTOR output channels from a multiple of VECTOR on lie side by side, its padding is zero.
//
// Global ids: tile of a row's positions, row (of all images), tile of channels.  A row's last tile ends with the row: it
// may overlap the one before, and stores only what that one does not.  A kernel of one position takes the positions of an
// image, or of all, as one row.  The sum is kept in f32, in the order of kh, kw, i.
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
#define UNROLL 4  // input channels a step of the main loop: 1, 2, 4
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

typedef struct {
    int ic, oc, padded_oc;      // padded_oc: of wei
    int kernel_h, kernel_w;
    int tap_h, tap_w;           // elements from one row of the kernel to the next, one column
    int row;                    // elements from one row of positions to the next, in src
    int block;                  // from one block of RUN channels to the next
    int image;                  // from one image to the next
    int rows, columns;          // of positions, in an image
    int dst_blocks;             // of DST_RUN channels
} rows_arg;

#define TILE_CHANNELS (VECTOR * TILE_VECTORS)

typedef COMPUTE_VT(WEI, VECTOR) vec;

#define ADD_CHANNEL(i)                                                                                   \
    {                                                                                                    \
        vec weights[TILE_VECTORS];                                                                       \
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) weights[v] =                            \
            LOADV(WEI, VECTOR, wei, wei_at[v] + (i)*wei_step);                                           \
        _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p) {                                        \
            const float x = LOAD(SRC, from, p * STEP + (i));                                             \
            _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] += x * weights[v];        \
        }                                                                                                \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_fwd_rows(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                   const rows_arg a) {
    const idx_t wanted = (idx_t)get_global_id(0) * TILE_PIXELS, o0 = (idx_t)get_global_id(2) * TILE_CHANNELS;
    const idx_t first = min(wanted, (idx_t)a.columns - TILE_PIXELS);
    const idx_t n = (idx_t)get_global_id(1) / a.rows, h = (idx_t)get_global_id(1) % a.rows;

    vec acc[TILE_PIXELS][TILE_VECTORS];
    _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p)
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] = (vec)(0.0f);

    const idx_t base = src_arg.offset + n * a.image + h * a.row + first * STEP;
    const idx_t wei_step = WEI_OFFSET(0, 1, 0, 0, 0) - WEI_OFFSET(0, 0, 0, 0, 0);
    for (int kh = 0; kh < a.kernel_h; ++kh) {
        for (int kw = 0; kw < a.kernel_w; ++kw) {
            __global const STORAGE_T(SRC)* from = src + base + kh * (idx_t)a.tap_h + kw * (idx_t)a.tap_w;
            // Beyond the last vector of weights the last one stands in: its sums are not stored.
            idx_t wei_at[TILE_VECTORS];
            for (int v = 0; v < TILE_VECTORS; ++v)
                wei_at[v] = WEI_OFFSET(min(o0 + v * VECTOR, (idx_t)a.padded_oc - VECTOR), 0, 0, kh, kw);
            for (int left = a.ic; left > 0; left -= RUN) {
                const int count = min(left, RUN);
                int i = 0;
                for (; i + UNROLL <= count; i += UNROLL) {
                    _Pragma("unroll") for (int u = 0; u < UNROLL; ++u) ADD_CHANNEL(i + u)
                }
#if UNROLL > 1
                for (; i < count; ++i) ADD_CHANNEL(i)
#endif
                from += a.block;
                for (int v = 0; v < TILE_VECTORS; ++v) wei_at[v] += RUN * wei_step;
            }
        }
    }

    // Through memory, so that what follows is a loop: it is long where the activation is.
    vec sums[TILE_PIXELS][TILE_VECTORS];
    _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p)
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) sums[p][v] = acc[p][v];
    for (int v = 0; v < TILE_VECTORS; ++v) {
        const idx_t o = o0 + v * VECTOR;
        if (o >= (idx_t)a.dst_blocks * DST_RUN) break;
        // Of position 0 of the row.
        const idx_t to = (((n * a.dst_blocks + o / DST_RUN) * a.rows + h) * a.columns) * DST_RUN + o % DST_RUN;
        for (int p = (int)(wanted - first); p < TILE_PIXELS; ++p) {
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
