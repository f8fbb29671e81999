// The gradient of a depthwise convolution by its weights, channels side by side, in two launches.
//
//   dst[c, 0, k] = sum over n, p of src[n, c, p * stride - begin + k * dilation] * grad[n, c, p]
// with p, k positions in (h, w); src is zero outside.
//
// conv_backward_weights_depthwise: sums of each part of the positions, stats[part][k][channel]; a work-item has all TAPS
// sums of its channels, and goes along pieces of grad's rows: of src it keeps what the next position's window has in
// common with this one's.  conv_backward_weights_depthwise_join: of all parts, in one order.
//
// Tensors: SRC and GRAD, channels last or in blocks of them; DST (c, 1, 1, kh, kw).  common/channel_parts.clh says what a
// work-item takes; its rows are pieces of `span` positions of a row of grad, `pieces` of them.
#include "common/channel_parts.clh"
#include "common/parts.clh"
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
#ifndef STRIDE_W
#define STRIDE_W 1  // the op's
#endif
#ifndef DILATION_W
#define DILATION_W 1  // the op's
#endif
#define TAPS (KERNEL_H * KERNEL_W)

// Where the columns of a window are kept: those that the next window has too stay where they are, so that positions are
// taken in STEPS, after which each column is in its first place again.  FRESH are new at each position.
#if DILATION_W == 1 && STRIDE_W < KERNEL_W
#define STEPS KERNEL_W
#define FRESH STRIDE_W
#define SLOT(step, kw) (((step)*STRIDE_W + (kw)) % KERNEL_W)
#else
#define STEPS 1
#define FRESH KERNEL_W
#define SLOT(step, kw) (kw)
#endif

// Images of src and grad: sizes.
typedef struct {
    int in_h, in_w, out_h, out_w;
    int span, pieces;
} image_sizes;

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void conv_backward_weights_depthwise(__global const STORAGE_T(SRC)* restrict src,
                                     __global const STORAGE_T(GRAD)* restrict grad, __global float* restrict stats,
                                     const window_arg window, const image_sizes sizes, const channel_walk walk) {
    const int part = (int)get_group_id(1);
    CHANNEL_BEGIN(part)
    const int width = walk.width;
    vec sums[TAPS];
    _Pragma("unroll") for (int k = 0; k < TAPS; ++k) sums[k] = (vec)(0.0f);
    for (int row = first_ + ly; row < end_; row += LANES_Y) {
        const int line = row / sizes.pieces, n = line / sizes.out_h, p = line % sizes.out_h;  // a row of an image of grad
        const int begin = row % sizes.pieces * sizes.span, end = min(begin + sizes.span, sizes.out_w);
        const idx_t image = (idx_t)n * walk.blocks + block_;
        const idx_t of_grad = ((image * sizes.out_h + p) * sizes.out_w) * width + column_;
        const int top = p * window.stride[1] - window.begin[1];
        const idx_t of_src = (image * sizes.in_h + top) * sizes.in_w * width + column_;
        vec held[KERNEL_H][KERNEL_W];
#define COLUMN(position, kw) ((position)*STRIDE_W - window.begin[2] + (kw)*DILATION_W)
#define BRING(step, position, kw)                                                                               \
    _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh) {                                                   \
        const int h = kh * window.dilation[1], x = COLUMN(position, kw);                                        \
        held[kh][SLOT(step, kw)] = (vec)(0.0f);                                                                 \
        if ((uint)(top + h) < (uint)sizes.in_h && (uint)x < (uint)sizes.in_w)                                   \
            held[kh][SLOT(step, kw)] = LOAD_VEC(SRC, src, of_src + ((idx_t)h * sizes.in_w + x) * width);        \
    }
        _Pragma("unroll") for (int kw = 0; kw < KERNEL_W - FRESH; ++kw) BRING(0, begin, kw)
        for (int first = begin; first < end; first += STEPS) {
            _Pragma("unroll") for (int step = 0; step < STEPS; ++step) {
                const int at = first + step;
                vec g = (vec)(0.0f);
                if (at < end) g = LOAD_VEC(GRAD, grad, of_grad + (idx_t)at * width);
                _Pragma("unroll") for (int kw = KERNEL_W - FRESH; kw < KERNEL_W; ++kw) BRING(step, at, kw)
                _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh)
                    _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)
                        sums[kh * KERNEL_W + kw] += g * held[kh][SLOT(step, kw)];
            }
        }
    }
    const idx_t all = (idx_t)walk.blocks * walk.width;
#if LANES_Y > 1
    // AT_ONCE sums of each work-item, 16 KiB, are joined by as many work-items as there are results.
#define AT_ONCE (TAPS < 4096 / (LANES_X * LANES_Y * VECTOR) ? TAPS : 4096 / (LANES_X * LANES_Y * VECTOR))
    __local vec sum_of[AT_ONCE * LANES_Y * LANES_X];
    const int own = ly * LANES_X + lx;
    _Pragma("unroll") for (int k = 0; k < TAPS; k += AT_ONCE) {
        if (k > 0) barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("unroll") for (int i = 0; i < AT_ONCE; ++i)
            if (k + i < TAPS) sum_of[i * LANES_Y * LANES_X + own] = sums[k + i];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int place = own; place < AT_ONCE * LANES_X; place += LANES_Y * LANES_X) {
            const int tap = k + place / LANES_X, lane = place % LANES_X, before = (lane - lx) * VECTOR;
            if (tap >= TAPS || column_ + before >= width) continue;
            vec sum = (vec)(0.0f);
            for (int y = 0; y < LANES_Y; ++y) sum += sum_of[(place / LANES_X * LANES_Y + y) * LANES_X + lane];
            STORE_VEC(STATS, stats, ((idx_t)part * TAPS + tap) * all + channel + before, sum);
        }
    }
#else
    _Pragma("unroll") for (int k = 0; k < TAPS; ++k)
        if (live) STORE_VEC(STATS, stats, ((idx_t)part * TAPS + k) * all + channel, sums[k]);
#endif
}

__kernel void conv_backward_weights_depthwise_join(__global const float* restrict stats, TENSOR_OUT(DST, dst),
                                                   const channel_walk walk) {
    const int channel = (int)get_global_id(0), k = (int)get_global_id(1);
    if (channel >= walk.channels) return;
    const idx_t all = (idx_t)walk.blocks * walk.width;
    SUM_OF_PARTS(float, sum, walk.parts, part, stats[((idx_t)part * TAPS + k) * all + channel])
    STORE(DST, dst, DST_OFFSET(channel, 0, 0, k / KERNEL_W, k % KERNEL_W), sum);
}
