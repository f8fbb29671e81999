// Transposed convolution of one filter for each channel, channels innermost; along each axis stride or dilation is 1.
//
//   dst[n, c, q] = activation(sum over k of src[n, c, p] * wei[c, 0, k] + bias[c] + res[n, c, q])
// over those p and k with q = p * stride - begin + k * dilation.  So each output gathers what reaches it: of an axis
// with a stride, every stride-th tap.
//
// Tensors: SRC (n, c, 1, h, w), WEI (c, 1, 1, kh, kw), DST and RES (n, c, 1, h, w), BIAS (c).
// A work-group takes LANES_X * VECTOR channels, whose weights it keeps in local memory, and LANES_Y * POSITIONS places.
#include "common/epilogue.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, channels last, 3x3 by twos
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define WEI_DTYPE f32
#define WEI_OFFSET(i, o, d, h, w) PLAIN_OFFSET5(wei, i, o, d, h, w)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define KERNEL_H 3
#define KERNEL_W 3
#define STRIDE_H 2
#define STRIDE_W 2
#define VECTOR 1
#define LANES_X 32
#define LANES_Y 4
#define POSITIONS 8
#endif

#if VECTOR == 1
typedef float vec;
#define LOAD_VEC(T, p, o) LOAD(T, p, o)
#define STORE_VEC(T, p, o, v) STORE(T, p, o, v)
#define FINISH(v, c) EPILOGUE_JOINED(v, c)
#define JOIN(v, c, at) JOIN_RESIDUAL_ONE(v, RESIDUAL_ONE(at), c)
#elif VECTOR == 2
typedef float2 vec;
#define LOAD_VEC(T, p, o) LOAD_PAIR(T, p, o)
#define STORE_VEC(T, p, o, v) STORE_PAIR(T, p, o, v)
#define FINISH(v, c) EPILOGUE_PAIR_JOINED(v, c)
#define JOIN(v, c, at) JOIN_RESIDUAL_PAIR(v, RESIDUAL_PAIR(at), c)
#else
typedef float4 vec;
#define LOAD_VEC(T, p, o) LOAD_QUAD(T, p, o)
#define STORE_VEC(T, p, o, v) STORE_QUAD(T, p, o, v)
#define FINISH(v, c) EPILOGUE_QUAD_JOINED(v, c)
#define JOIN(v, c, at) JOIN_RESIDUAL_QUAD(v, RESIDUAL_QUAD(at), c)
#endif

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void conv_transpose_depthwise(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei),
                              TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS, const window_arg window) {
    __local float weights[KERNEL_H * KERNEL_W * LANES_X * VECTOR];
    const int lx = (int)get_local_id(0), ly = (int)get_local_id(1);
    const idx_t first = (idx_t)get_group_id(0) * (LANES_X * VECTOR), channels = DST_DIM(1);
    for (int i = ly * LANES_X + lx; i < KERNEL_H * KERNEL_W * LANES_X * VECTOR; i += LANES_X * LANES_Y) {
        const int tap = i / (LANES_X * VECTOR);
        const idx_t c = first + i % (LANES_X * VECTOR);
        weights[i] = c < channels ? LOAD(WEI, wei, WEI_OFFSET(c, 0, 0, tap / KERNEL_W, tap % KERNEL_W)) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const idx_t c = first + lx * VECTOR;
    if (c >= channels) return;
    const idx_t columns = DST_DIM(4), rows = DST_DIM(3), places = DST_DIM(0) * rows * columns;
    idx_t place = (idx_t)get_group_id(1) * (LANES_Y * POSITIONS) + ly;
    for (int k = 0; k < POSITIONS && place < places; ++k, place += LANES_Y) {
        const idx_t x = place % columns, y = place / columns % rows, n = place / columns / rows;
        const idx_t below = y + window.begin[1], right = x + window.begin[2];
        vec sum = (vec)(0.0f);
        _Pragma("unroll")
        for (int kh = 0; kh < (KERNEL_H + STRIDE_H - 1) / STRIDE_H; ++kh) {
            const int th = (int)((uidx_t)below % STRIDE_H) + kh * STRIDE_H;
            const idx_t h = (below - th * (idx_t)window.dilation[1]) / STRIDE_H;
            if (th >= KERNEL_H || below < th * (idx_t)window.dilation[1] || h >= SRC_DIM(3)) continue;
            _Pragma("unroll")
            for (int kw = 0; kw < (KERNEL_W + STRIDE_W - 1) / STRIDE_W; ++kw) {
                const int tw = (int)((uidx_t)right % STRIDE_W) + kw * STRIDE_W;
                const idx_t w = (right - tw * (idx_t)window.dilation[2]) / STRIDE_W;
                if (tw >= KERNEL_W || right < tw * (idx_t)window.dilation[2] || w >= SRC_DIM(4)) continue;
                const __local float* const of_tap =
                    weights + ((th * KERNEL_W + tw) * LANES_X + lx) * VECTOR;
#if VECTOR == 1
                const vec weight = of_tap[0];
#elif VECTOR == 2
                const vec weight = vload2(0, of_tap);
#else
                const vec weight = vload4(0, of_tap);
#endif
                sum += LOAD_VEC(SRC, src, SRC_OFFSET(n, c, 0, h, w)) * weight;
            }
        }
        JOIN(sum, c, RES_OFFSET(n, c, 0, y, x));
        STORE_VEC(DST, dst, DST_OFFSET(n, c, 0, y, x), FINISH(sum, c));
    }
}
