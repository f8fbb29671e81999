// The gradient of a depthwise convolution by its weights, channels side by side, in two launches.
//
//   dst[c, 0, k] = sum over n, p of src[n, c, p * stride - begin + k * dilation] * grad[n, c, p]
// with p, k positions in (h, w); src is zero outside.
//
// conv_backward_weights_depthwise: sums of each part of the positions, stats[part][k][channel]; a work-item has all TAPS
// sums of its channels.  conv_backward_weights_depthwise_join: of all parts, in one order.
//
// Tensors: SRC and GRAD, channels last or in blocks of them, GRAD addressed by common/channel_parts.clh, which says what a
// work-item takes, its rows being positions p; DST (c, 1, 1, kh, kw).
#include "common/channel_parts.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain weights
#define SRC_DTYPE f32
#define GRAD_DTYPE f32
#define DST_DTYPE f32
#define DST_OFFSET(o, i, d, h, w) PLAIN_OFFSET5(dst, o, i, d, h, w)
#endif
#ifndef KERNEL_H
#define KERNEL_H 3  // rows of the window
#endif
#ifndef KERNEL_W
#define KERNEL_W 3  // columns of the window
#endif
#define TAPS (KERNEL_H * KERNEL_W)

// Images of src and grad: sizes.
typedef struct {
    int in_h, in_w, out_h, out_w;
} image_sizes;

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void conv_backward_weights_depthwise(__global const STORAGE_T(SRC)* restrict src,
                                     __global const STORAGE_T(GRAD)* restrict grad, __global float* restrict stats,
                                     const window_arg window, const image_sizes sizes, const channel_walk walk) {
    const int part = (int)get_group_id(1);
    CHANNEL_BEGIN(part)
    const uint positions = (uint)(sizes.out_h * sizes.out_w);
    vec sums[TAPS];
    _Pragma("unroll") for (int k = 0; k < TAPS; ++k) sums[k] = (vec)(0.0f);
    for (int row = first_ + ly; row < end_; row += LANES_Y) {
        const vec g = LOAD_VEC(GRAD, grad, ROW_PLACE_OF(row));
        const uint n = (uint)row / positions, p = (uint)row % positions;
        const int y0 = (int)(p / (uint)sizes.out_w) * window.stride[1] - window.begin[1];
        const int x0 = (int)(p % (uint)sizes.out_w) * window.stride[2] - window.begin[2];
        const idx_t image = ((idx_t)n * walk.blocks + block_) * sizes.in_h;
        _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh) {
            const int y = y0 + kh * window.dilation[1];
            if ((uint)y >= (uint)sizes.in_h) continue;
            _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw) {
                const int x = x0 + kw * window.dilation[2];
                if ((uint)x < (uint)sizes.in_w)
                    sums[kh * KERNEL_W + kw] += g * LOAD_VEC(SRC, src, ((image + y) * sizes.in_w + x) * walk.width + column_);
            }
        }
    }
    const idx_t all = (idx_t)walk.blocks * walk.width;
#if LANES_Y > 1
    __local vec sum_of[LANES_Y * LANES_X];
    const int own = ly * LANES_X + lx;
#endif
    _Pragma("unroll") for (int k = 0; k < TAPS; ++k) {
        vec sum = sums[k];
#if LANES_Y > 1
        barrier(CLK_LOCAL_MEM_FENCE);
        sum_of[own] = sum;
        for (int half_ = LANES_Y / 2; half_ > 0; half_ /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (ly < half_) sum_of[own] = sum = sum + sum_of[own + half_ * LANES_X];
        }
#endif
        if (ly == 0 && live) STORE_VEC(STATS, stats, ((idx_t)part * TAPS + k) * all + channel, sum);
    }
}

__kernel void conv_backward_weights_depthwise_join(__global const float* restrict stats, TENSOR_OUT(DST, dst),
                                                   const channel_walk walk) {
    const int channel = (int)get_global_id(0), k = (int)get_global_id(1);
    if (channel >= walk.channels) return;
    const idx_t all = (idx_t)walk.blocks * walk.width;
    float sum = 0.0f;
    _Pragma("unroll 8") for (int part = 0; part < walk.parts; ++part)
        sum += stats[((idx_t)part * TAPS + k) * all + channel];
    STORE(DST, dst, DST_OFFSET(channel, 0, 0, k / KERNEL_W, k % KERNEL_W), sum);
}
