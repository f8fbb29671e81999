// The gradient of grid_sample by its grid, any layouts.
//
//   dst[n, p, e] = sum over c and the pixels q of place p of slope(q, e) * src[n, c, q] * grad[n, c, p]
//
// with slope(q, e), how fast the weight of q changes along e: grid_sample/axis.clh.
// Tensors: GRAD and SRC (n, c, d, h, w), each at *_OFFSET of its own layout; grid and dst, f32, dense:
// (n, d, h, w, SPATIAL) of GRAD's sizes, the last number of a place along d.
// One work-item writes the numbers of one place.
#include "common/tensor.clh"
#include "grid_sample/axis.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define GRAD_DTYPE f32
#define GRAD_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(grad, n, c, d, h, w)
#define GRAD_DIM(i) PLAIN_DIM(grad, i)
#endif

__kernel void grid_sample_backward_grid(TENSOR_IN(GRAD, grad), TENSOR_IN(SRC, src), __global const float* restrict grid,
                                        __global float* restrict dst, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    const idx_t pw = place % GRAD_DIM(4), above_w = place / GRAD_DIM(4), ph = above_w % GRAD_DIM(3);
    const idx_t above_h = above_w / GRAD_DIM(3), pd = above_h % GRAD_DIM(2), n = above_h / GRAD_DIM(2);
    const idx_t at = place * SPATIAL;
    AXES_OF_PLACE(grid, at, SRC_DIM(2), SRC_DIM(3), SRC_DIM(4))
    float sum_w = 0.0f, sum_h = 0.0f, sum_d = 0.0f;
    EACH_PIXEL(kd, kh, kw) {
        float product = 0.0f;
        for (idx_t c = 0; c < SRC_DIM(1); ++c)
            product += LOAD(GRAD, grad, GRAD_OFFSET(n, c, pd, ph, pw)) *
                       LOAD(SRC, src, SRC_OFFSET(n, c, d.pixel[kd], h.pixel[kh], w.pixel[kw]));
        sum_w += product * d.weight[kd] * h.weight[kh] * w.slope[kw];
        sum_h += product * d.weight[kd] * h.slope[kh] * w.weight[kw];
        sum_d += product * d.slope[kd] * h.weight[kh] * w.weight[kw];
    }
    dst[at] = sum_w;
    if (SPATIAL > 1) dst[at + (SPATIAL > 1)] = sum_h;
    if (SPATIAL > 2) dst[at + 2 * (SPATIAL > 2)] = sum_d;
}
