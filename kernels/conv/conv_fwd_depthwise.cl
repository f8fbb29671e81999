// Depthwise convolution: each channel has filters of its own.
//
//   dst[n, o, q] = activation(sum over k of src[n, o / multiplier, q * stride - begin + k * dilation] * wei[o, 0, k]
//                             + bias[o] + res[n, o, q])
// with q, k positions in (d, h, w); src is zero outside.
//
// Tensors: SRC (n, c, d, h, w), WEI (oc, 1, kd, kh, kw), DST (n, oc, d, h, w), BIAS (oc), RES as DST; each at *_OFFSET
// of its own layout.  SRC and DST may be blocked along channels only.
//
// LANES 1: the lanes of a vector are channels.  Assumed: multiplier is 1; VECTOR channels from a multiple of VECTOR on
//   lie side by side in SRC, WEI and DST, the last ones of which may be padding.  Global ids: vector of channels
//   (padded), tile of columns, row (n, d, h).  A work-item computes TILE_W columns of VECTOR channels.
// LANES 4: the lanes are columns.  Global ids: tile of TILE_W vectors of columns, row (d, h), n and channel (padded).
//   Columns outside src and those of other strides than 1 (UNIT_STRIDE 0) are read one by one.
// The sum is kept in f32, in the order of kd, kh, kw.
#include "common/epilogue.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, (n, c, h, w)
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_UNIT_DIM 4
#define WEI_DTYPE f32
#define WEI_OFFSET(o, i, d, h, w) PLAIN_OFFSET5(wei, o, i, d, h, w)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_PADDED(i) PLAIN_DIM(dst, i)
#define DST_UNIT_DIM 4
#endif

#ifndef LANES
#define LANES 4  // the dimension along vectors: 1 (channels), 4 (columns)
#endif
#ifndef VECTOR
#define VECTOR 8  // elements in a vector: 1, 2, 4, 8, 16
#endif
#ifndef TILE_W
#define TILE_W 2  // columns (LANES 1) or vectors of columns (LANES 4) a work-item: 1, 2, 4, 8
#endif
#ifndef UNIT_STRIDE
#define UNIT_STRIDE 0  // 1: stride along w is 1
#endif

#if VECTOR == 1
typedef float vec;
#define LOAD_VEC(T, p, o) LOAD(T, p, o)
#define STORE_VEC(T, p, o, v) STORE(T, p, o, v)
#else
typedef COMPUTE_VT(WEI, VECTOR) vec;
#define LOAD_VEC(T, p, o) LOADV(T, VECTOR, p, o)
#define STORE_VEC(T, p, o, v) STOREV(T, VECTOR, p, o, v)
#endif

__kernel void conv_fwd_depthwise(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                                 const window_arg window, const idx_t multiplier) {
#if LANES == 1
    const idx_t o = (idx_t)get_global_id(0) * VECTOR, first = (idx_t)get_global_id(1) * TILE_W;
    idx_t row = (idx_t)get_global_id(2);
    const idx_t h = row % DST_DIM(3);
    row /= DST_DIM(3);
    const idx_t d = row % DST_DIM(2), n = row / DST_DIM(2);
    if (o >= DST_PADDED(1) || first >= DST_DIM(4) || n >= DST_DIM(0)) return;
    const idx_t c = o;
#define COLUMN(t) (first + (t))
#else
    const idx_t first = (idx_t)get_global_id(0) * (TILE_W * VECTOR), row = (idx_t)get_global_id(1);
    const idx_t h = row % DST_DIM(3), d = row / DST_DIM(3);
    const idx_t o = (idx_t)get_global_id(2) % DST_PADDED(1), n = (idx_t)get_global_id(2) / DST_PADDED(1);
    if (first >= DST_DIM(4) || d >= DST_DIM(2) || n >= DST_DIM(0)) return;
    if (o >= DST_DIM(1)) {  // padding
        for (idx_t w = first; w < min(first + TILE_W * VECTOR, DST_DIM(4)); ++w)
            STORE(DST, dst, DST_OFFSET(n, o, d, h, w), 0);
        return;
    }
    const idx_t c = o / multiplier;
#define COLUMN(t) (first + (t)*VECTOR)
#endif

    vec acc[TILE_W];
    _Pragma("unroll") for (int t = 0; t < TILE_W; ++t) acc[t] = (vec)(0.0f);
    for (int kd = 0; kd < window.size[0]; ++kd) {
        const idx_t sd = d * window.stride[0] - window.begin[0] + kd * (idx_t)window.dilation[0];
        if (sd < 0 || sd >= SRC_DIM(2)) continue;
        for (int kh = 0; kh < window.size[1]; ++kh) {
            const idx_t sh = h * window.stride[1] - window.begin[1] + kh * (idx_t)window.dilation[1];
            if (sh < 0 || sh >= SRC_DIM(3)) continue;
            for (int kw = 0; kw < window.size[2]; ++kw) {
                const idx_t shift = kw * (idx_t)window.dilation[2] - window.begin[2];
#if LANES == 1
                const vec weight = LOAD_VEC(WEI, wei, WEI_OFFSET(o, 0, kd, kh, kw));
#else
                const float weight = LOAD(WEI, wei, WEI_OFFSET(o, 0, kd, kh, kw));
#endif
                _Pragma("unroll") for (int t = 0; t < TILE_W; ++t) {
                    const idx_t sw = COLUMN(t) * window.stride[2] + shift;
#if LANES == 1 || VECTOR == 1
                    if (sw >= 0 && sw < SRC_DIM(4))
                        acc[t] += LOAD_VEC(SRC, src, SRC_OFFSET(n, c, sd, sh, sw)) * weight;
#else
                    vec x;
#if UNIT_STRIDE && SRC_UNIT_DIM == 4
                    if (sw >= 0 && sw + VECTOR <= SRC_DIM(4))
                        x = LOAD_VEC(SRC, src, SRC_OFFSET(n, c, sd, sh, sw));
                    else
#endif
                    {
                        float lanes[VECTOR];
                        for (int j = 0; j < VECTOR; ++j) {
                            const idx_t at = sw + j * (idx_t)window.stride[2];
                            lanes[j] = at >= 0 && at < SRC_DIM(4) ? LOAD(SRC, src, SRC_OFFSET(n, c, sd, sh, at)) : 0.0f;
                        }
                        x = PL_CAT(vload, VECTOR)(0, lanes);
                    }
                    acc[t] += x * weight;
#endif
                }
            }
        }
    }

    vec sums[TILE_W];  // through memory, so that what follows is a loop
    _Pragma("unroll") for (int t = 0; t < TILE_W; ++t) sums[t] = acc[t];
    for (int t = 0; t < TILE_W && COLUMN(t) < DST_DIM(4); ++t) {
        const idx_t w = COLUMN(t);
        const float* sum = (const float*)&sums[t];
#if LANES == 1
#if VECTOR > 1
        if (o + VECTOR <= DST_DIM(1)) {
            const vec y = EPILOGUE_V(VECTOR, sums[t], o, RES_OFFSET(n, o, d, h, w));
            STORE_VEC(DST, dst, DST_OFFSET(n, o, d, h, w), y);
            continue;
        }
#endif
        for (int j = 0; j < VECTOR; ++j) {
            float y = 0.0f;
            if (o + j < DST_DIM(1)) y = EPILOGUE(sum[j], o + j, RES_OFFSET(n, o + j, d, h, w));
            STORE(DST, dst, DST_OFFSET(n, o + j, d, h, w), y);
        }
#else
        for (int j = 0; j < VECTOR && w + j < DST_DIM(4); ++j) {
            const float y = EPILOGUE(sum[j], o, RES_OFFSET(n, o, d, h, w + j));
            STORE(DST, dst, DST_OFFSET(n, o, d, h, w + j), y);
        }
#endif
    }
}
