// The gradient of a convolution by its weights, any layouts, any geometry.
//
//   dst[o, i, k] = sum over n, p of src[n, g * ic + i, p * stride - begin + k * dilation] * grad[n, o, p]
// with g = o / oc_per_group; p, k positions in (d, h, w); src is zero outside.
//
// Tensors: SRC (n, c, d, h, w), GRAD (n, oc, d, h, w), DST (oc, ic, kd, kh, kw) without padding, each at *_OFFSET of its own
// layout.  GROUP work-items make one weight: each sums every GROUP-th position, BLOCK of them at a time so that rounding
// does not grow with their number, and the sums are added in one order.
#include "common/rows.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define GRAD_DTYPE f32
#define GRAD_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(grad, n, c, d, h, w)
#define GRAD_DIM(i) PLAIN_DIM(grad, i)
#define DST_DTYPE f32
#define DST_OFFSET(o, i, d, h, w) PLAIN_OFFSET5(dst, o, i, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif
#define BLOCK 64

__kernel void conv_backward_weights_direct(TENSOR_IN(SRC, src), TENSOR_IN(GRAD, grad), TENSOR_OUT(DST, dst),
                                           const window_arg window, const idx_t oc_per_group, const idx_t weights) {
    const idx_t weight = (idx_t)get_global_id(0) / GROUP, first = (idx_t)get_global_id(0) % GROUP;
    if (weight >= weights) return;  // whole groups: GROUP divides the work-group
#if GROUP > 1
    __local float scratch[GROUP];
#endif
    const idx_t kw = weight % DST_DIM(4), of_h = weight / DST_DIM(4), kh = of_h % DST_DIM(3), of_d = of_h / DST_DIM(3),
                kd = of_d % DST_DIM(2), of_i = of_d / DST_DIM(2), i = of_i % DST_DIM(1), o = of_i / DST_DIM(1);
    const idx_t c = o / oc_per_group * DST_DIM(1) + i;
    const idx_t positions = GRAD_DIM(0) * GRAD_DIM(2) * GRAD_DIM(3) * GRAD_DIM(4);
    float sum = 0.0f;
    for (idx_t begin = first; begin < positions; begin += GROUP * BLOCK) {
        float block = 0.0f;
        const idx_t end = min(begin + GROUP * BLOCK, positions);
        for (idx_t p = begin; p < end; p += GROUP) {
            const idx_t pw = p % GRAD_DIM(4), rest_h = p / GRAD_DIM(4), ph = rest_h % GRAD_DIM(3),
                        rest_d = rest_h / GRAD_DIM(3), pd = rest_d % GRAD_DIM(2), n = rest_d / GRAD_DIM(2);
            const idx_t d = pd * window.stride[0] - window.begin[0] + kd * window.dilation[0];
            const idx_t h = ph * window.stride[1] - window.begin[1] + kh * window.dilation[1];
            const idx_t w = pw * window.stride[2] - window.begin[2] + kw * window.dilation[2];
            if ((uidx_t)d < (uidx_t)SRC_DIM(2) && (uidx_t)h < (uidx_t)SRC_DIM(3) && (uidx_t)w < (uidx_t)SRC_DIM(4))
                block += LOAD(SRC, src, SRC_OFFSET(n, c, d, h, w)) * LOAD(GRAD, grad, GRAD_OFFSET(n, o, pd, ph, pw));
        }
        sum += block;
    }
    sum = ROW_SUM(scratch, sum);
    if (first == 0) STORE(DST, dst, DST_OFFSET(o, i, kd, kh, kw), sum);
}
