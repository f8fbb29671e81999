// Convolution as an implicit matrix product with register tiles, for CPUs: vectors run along output channels, so that
// one kernel serves every layout of activations.
//
//   dst[n, o, q] = activation(sum over i, k of src[n, g * ic + i, q * stride - begin + k * dilation] * wei[o, i, k]
//                             + bias[o] + res[n, o, q])
// with g = o / oc_per_group, ic = WEI_DIM(1) the channels of a group; q, k positions in (d, h, w); src is zero outside.
//
// Tensors: SRC (n, c, d, h, w), WEI (oc, ic, kd, kh, kw), DST (n, oc, d, h, w), BIAS (oc), RES as DST; each at
// *_OFFSET of its own layout.  SRC and DST may be blocked along channels only.
// Assumed of WEI: VECTOR output channels from a multiple of VECTOR on lie side by side, its padding is zero; and
// that oc_per_group is a multiple of VECTOR * TILE_VECTORS where there is more than one group.
//
// One work-item computes TILE_PIXELS positions, in the order of (n, d, h, w), of TILE_VECTORS * VECTOR channels; global
// ids: tile of positions, tile of channels.  The one of the last channels writes the zeros of dst's padding.
// The sum is kept in f32, in the order of kd, kh, kw, i.
#include "common/epilogue.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, activations (n, h, w, c), weights in blocks of 16 output channels
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_STRIDE(i) PLAIN_STRIDE(src, i)
#define SRC_UNIT_DIM 1
#define SRC_UNIT_RUN 0
#define WEI_DTYPE f32
#define WEI_OFFSET(o, i, d, h, w) (PLAIN_OFFSET5(wei, (o) >> 4, i, d, h, w) + ((o) & 15))
#define WEI_DIM(i) PLAIN_DIM(wei, i)
#define WEI_PADDED(i) ((i) == 0 ? (PLAIN_DIM(wei, 0) + 15) / 16 * 16 : PLAIN_DIM(wei, i))
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_PADDED(i) PLAIN_DIM(dst, i)
#define DST_BLOCK(i) 1
#define DST_UNIT_DIM 1
#define DST_UNIT_RUN 0
#endif

#ifndef VECTOR
#define VECTOR 8  // output channels in a vector: 2, 4, 8, 16
#endif
#ifndef TILE_VECTORS
#define TILE_VECTORS 2  // vectors a work-item: 1, 2, 4
#endif
#ifndef TILE_PIXELS
#define TILE_PIXELS 6  // positions a work-item: 1 to 16
#endif

#define TILE_CHANNELS (VECTOR * TILE_VECTORS)
#if SRC_UNIT_DIM == 1 && SRC_UNIT_RUN == 0
#define SRC_CHANNEL(c) (c)
#else
#define SRC_CHANNEL(c) (SRC_OFFSET(0, c, 0, 0, 0) - SRC_OFFSET(0, 0, 0, 0, 0))
#endif
#define VECTOR_STORES (DST_UNIT_DIM == 1 && (DST_UNIT_RUN == 0 || DST_UNIT_RUN % VECTOR == 0))

typedef COMPUTE_VT(WEI, VECTOR) vec;

// The next position in the order of (n, d, h, w).
#define NEXT_POSITION(n, d, h, w)                 \
    if (++w == DST_DIM(4)) {                      \
        w = 0;                                    \
        if (++h == DST_DIM(3)) {                  \
            h = 0;                                \
            if (++d == DST_DIM(2)) d = 0, ++n;    \
        }                                         \
    }

// acc[p][v] += x of position p * weights of vector v, for all channels of the group at one kernel position.
#define ADD_CHANNELS(X)                                                              \
    for (idx_t i = 0; i < ic; ++i) {                                                 \
        const idx_t channel = SRC_CHANNEL(c0 + i) + shift;                           \
        vec weights[TILE_VECTORS];                                                   \
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) weights[v] =        \
            LOADV(WEI, VECTOR, wei, WEI_OFFSET(vector_at[v], i, kd, kh, kw));        \
        _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p) {                    \
            const float x = X;                                                       \
            _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] += x * weights[v]; \
        }                                                                            \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((intel_vec_len_hint(1)))
void conv_fwd_tiled(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                    const window_arg window, const idx_t oc_per_group, const idx_t pixels) {
    const idx_t first = (idx_t)get_global_id(0) * TILE_PIXELS, o0 = (idx_t)get_global_id(1) * TILE_CHANNELS;
    const idx_t ic = WEI_DIM(1), c0 = o0 / oc_per_group * ic;
    idx_t rest = first;
    const idx_t first_w = rest % DST_DIM(4);
    rest /= DST_DIM(4);
    const idx_t first_h = rest % DST_DIM(3);
    rest /= DST_DIM(3);
    const idx_t first_d = rest % DST_DIM(2), first_n = rest / DST_DIM(2);

    // Beyond the last vector of weights the last one stands in: its sums are not stored.
    idx_t vector_at[TILE_VECTORS];
    for (int v = 0; v < TILE_VECTORS; ++v) vector_at[v] = min(o0 + v * VECTOR, WEI_PADDED(0) - VECTOR);

    // Where the windows of the tile's positions begin: offset (of the channel 0) and indices, in src; both may lie
    // before it.  Beyond the last position the last one is repeated.
    idx_t base[TILE_PIXELS], d0[TILE_PIXELS], h0[TILE_PIXELS], w0[TILE_PIXELS];
    idx_t n = first_n, d = first_d, h = first_h, w = first_w;
    for (int p = 0; p < TILE_PIXELS; ++p) {
        d0[p] = d * window.stride[0] - window.begin[0];
        h0[p] = h * window.stride[1] - window.begin[1];
        w0[p] = w * window.stride[2] - window.begin[2];
        base[p] = SRC_OFFSET(n, 0, 0, 0, 0) + d0[p] * SRC_STRIDE(2) + h0[p] * SRC_STRIDE(3) + w0[p] * SRC_STRIDE(4);
        if (first + p + 1 < pixels) NEXT_POSITION(n, d, h, w)
    }

    vec acc[TILE_PIXELS][TILE_VECTORS];
    _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p)
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) acc[p][v] = (vec)(0.0f);

    for (int kd = 0; kd < window.size[0]; ++kd) {
        for (int kh = 0; kh < window.size[1]; ++kh) {
            for (int kw = 0; kw < window.size[2]; ++kw) {
                const idx_t dd = kd * (idx_t)window.dilation[0], hh = kh * (idx_t)window.dilation[1],
                            ww = kw * (idx_t)window.dilation[2];
                const idx_t shift = dd * SRC_STRIDE(2) + hh * SRC_STRIDE(3) + ww * SRC_STRIDE(4);
                int inside[TILE_PIXELS];
                int all = 1, any = 0;
                for (int p = 0; p < TILE_PIXELS; ++p) {
                    inside[p] = (uidx_t)(d0[p] + dd) < (uidx_t)SRC_DIM(2) &&
                                (uidx_t)(h0[p] + hh) < (uidx_t)SRC_DIM(3) && (uidx_t)(w0[p] + ww) < (uidx_t)SRC_DIM(4);
                    all &= inside[p];
                    any |= inside[p];
                }
                if (all) {
                    ADD_CHANNELS(LOAD(SRC, src, base[p] + channel))
                } else if (any) {
                    ADD_CHANNELS(inside[p] ? LOAD(SRC, src, base[p] + channel) : 0.0f)
                }
            }
        }
    }

    // Through memory, so that what follows is a loop: it is long where the activation is.
    vec sums[TILE_PIXELS][TILE_VECTORS];
    _Pragma("unroll") for (int p = 0; p < TILE_PIXELS; ++p)
        _Pragma("unroll") for (int v = 0; v < TILE_VECTORS; ++v) sums[p][v] = acc[p][v];
    const idx_t oc = DST_DIM(1);
    n = first_n, d = first_d, h = first_h, w = first_w;
    for (int p = 0; p < TILE_PIXELS && first + p < pixels; ++p) {
        for (int v = 0; v < TILE_VECTORS; ++v) {
            const idx_t o = o0 + v * VECTOR;
#if VECTOR_STORES
            if (o + VECTOR <= oc) {
                const vec y = EPILOGUE_V(VECTOR, sums[p][v], o, RES_OFFSET(n, o, d, h, w));
                STOREV(DST, VECTOR, dst, DST_OFFSET(n, o, d, h, w), y);
                continue;
            }
#endif
            const float* sum = (const float*)&sums[p][v];
            for (int j = 0; j < VECTOR && o + j < oc; ++j) {
                const float y = EPILOGUE(sum[j], o + j, RES_OFFSET(n, o + j, d, h, w));
                STORE(DST, dst, DST_OFFSET(n, o + j, d, h, w), y);
            }
        }
#if DST_BLOCK(1) > 1
        if (o0 + TILE_CHANNELS >= oc)
            for (idx_t o = oc; o < DST_PADDED(1); ++o) STORE(DST, dst, DST_OFFSET(n, o, d, h, w), 0);
#endif
        NEXT_POSITION(n, d, h, w)
    }
}
