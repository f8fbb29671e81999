// The gradient of a pool by its input, any layout.
//
//   max:  dst[n, c, q] = sum of grad[n, c, p] over the windows p whose maximum is src[n, c, q]; of equal values the first
//         one counts, a NaN is larger than any number
//   avg:  dst[n, c, q] = sum of grad[n, c, p] / count[p] over the windows p that hold q; count = the inputs that p sees,
//         or, with COUNT_PAD, the positions of the window inside [-begin, in + end)
// with q, p positions in (d, h, w).  Window p sees p * stride - begin + k * dilation; with ADAPTIVE the inputs from
// floor(p * in / out) to before ceil((p + 1) * in / out).
//
// max: pool_backward_places finds where the maximum of each window is, d * in_h * in_w + h * in_w + w, and keeps it at
// the window's place in grad; -1 where a window sees no input.  pool_backward_direct: dst.
//
// Tensors: SRC (with POOL_MAX), GRAD and DST (n, c, d, h, w), each at *_OFFSET of its own layout.
// One work-item writes one window's place or one element of dst, padding (as zero) included; neighbours write neighbours
// in memory.  Windows are added in their order, so that results repeat.
#include "common/tensor.clh"

#ifndef POOL_MAX
#define POOL_MAX 1  // 1: maximum, 0: average
#endif
#ifndef COUNT_PAD
#define COUNT_PAD 0  // average: 1 counts padding in the divisor
#endif
#ifndef ADAPTIVE
#define ADAPTIVE 0  // 1: windows share the input evenly
#endif
#ifndef WINDOW
#define WINDOW {{1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}  // the op's, a constant: strides then cost no divisions
#endif
#ifndef DST_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define GRAD_DTYPE f32
#define GRAD_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(grad, n, c, d, h, w)
#define GRAD_DIM(i) PLAIN_DIM(grad, i)
#define GRAD_AT(i) PLAIN_OFFSET5(grad, i##0, i##1, i##2, i##3, i##4)
#define GRAD_INSIDE(i) 1
#define GRAD_INDICES(place, i) PLAIN_INDICES5(grad, place, i)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET5(dst, i##0, i##1, i##2, i##3, i##4)
#define DST_INSIDE(i) 1
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif

#include "pool/axis.clh"
#if POOL_MAX
#include "pool/largest.clh"
#endif

// What of a window of `count` inputs from `begin` on lies within `in` inputs.
static inline idx_t seen_of(idx_t begin, idx_t step, idx_t count, idx_t in) {
    const idx_t before = begin < 0 ? (-begin + step - 1) / step : 0;
    const idx_t end = begin >= in ? 0 : min(count, (in - 1 - begin) / step + 1);
    return max((idx_t)0, end - before);
}

// Along axis a, named x: count_x, how many inputs of window p an average counts; goes on with the next window where p
// does not see q.
#if POOL_MAX
#define DIVISOR_ALONG(a, x, p, q)
#else
#if COUNT_PAD
#define COUNTED(a, x, p, begin) (min((begin) + COUNT(a, p, in_##x, out_##x), in_##x + end_##x) - (begin))
#else
#define COUNTED(a, x, p, begin) seen_of(begin, STEP(a), COUNT(a, p, in_##x, out_##x), in_##x)
#endif
#define DIVISOR_ALONG(a, x, p, q)                    \
    if (!HOLDS(a, p, q, in_##x, out_##x)) continue;  \
    const idx_t begin_##x = BEGIN(a, p, in_##x, out_##x), count_##x = COUNTED(a, x, p, begin_##x);
#endif

#if POOL_MAX
__kernel void pool_backward_places(TENSOR_IN(SRC, src), TENSOR_IN(GRAD, grad), __global int* restrict found,
                                   const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    const window_arg window = WINDOW;
    GRAD_INDICES(place, i)
    if (!GRAD_INSIDE(i)) return;
    found[GRAD_AT(i)] = (int)largest_of_window(src, src_arg, window, i0, i1, i2, i3, i4, GRAD_DIM(2), GRAD_DIM(3),
                                               GRAD_DIM(4));
}
#endif

__kernel void pool_backward_direct(
#if POOL_MAX
    __global const int* restrict found,
#endif
    TENSOR_IN(GRAD, grad), TENSOR_OUT(DST, dst), const int end_d, const int end_h, const int end_w,
    const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    const window_arg window = WINDOW;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0);
        return;
    }
    const idx_t in_d = DST_DIM(2), in_h = DST_DIM(3), in_w = DST_DIM(4);
    const idx_t out_d = GRAD_DIM(2), out_h = GRAD_DIM(3), out_w = GRAD_DIM(4);
#if POOL_MAX
    const int own = (int)((i2 * in_h + i3) * in_w + i4);
#endif
    float sum = 0.0f;
    const idx_t last_d = LAST(0, i2, in_d, out_d), last_h = LAST(1, i3, in_h, out_h), last_w = LAST(2, i4, in_w, out_w);
    for (idx_t pd = FIRST(0, i2, in_d, out_d); pd <= last_d; ++pd) {
        DIVISOR_ALONG(0, d, pd, i2)
        for (idx_t ph = FIRST(1, i3, in_h, out_h); ph <= last_h; ++ph) {
            DIVISOR_ALONG(1, h, ph, i3)
            for (idx_t pw = FIRST(2, i4, in_w, out_w); pw <= last_w; ++pw) {
                DIVISOR_ALONG(2, w, pw, i4)
                const idx_t at = GRAD_OFFSET(i0, i1, pd, ph, pw);
#if POOL_MAX
                if (found[at] == own) sum += LOAD(GRAD, grad, at);
#else
                sum += LOAD(GRAD, grad, at) / (float)(count_d * count_h * count_w);
#endif
            }
        }
    }
    STORE(DST, dst, DST_AT(i), sum);
}
