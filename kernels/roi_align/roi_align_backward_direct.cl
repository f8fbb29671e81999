// The gradient of roi_align by its images, of means, any layouts.
//
//   dst[n, c, y, x] = sum over the boxes k of image n and their bins (i, j) of the weights of row y and column x there
//                     * grad[k, c, i, j] / the samples of a bin
//
// with the samples of roi_align/box.clh.
// Tensors: GRAD (k, c, i, j) and DST (n, c, h, w), each at *_OFFSET of its own layout; boxes (k, 4), f32, and
// images (k), INDEX, s32 or s64, dense.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.  It asks
// each box of its image for the bins that may reach it, in their order.
#include "common/tensor.clh"
#include "roi_align/box.clh"

#ifndef GRAD_DTYPE  // on its own: f32, plain
#define GRAD_DTYPE f32
#define GRAD_OFFSET(n, c, h, w) PLAIN_OFFSET4(grad, n, c, h, w)
#define GRAD_DIM(i) PLAIN_DIM(grad, i)
#define INDEX_DTYPE s64
#define DST_DTYPE f32
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_AT(i) PLAIN_OFFSET4(dst, i##0, i##1, i##2, i##3)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i)                                                                      \
    const idx_t i##3 = (place) % PLAIN_DIM(dst, 3), i##_r2 = (place) / PLAIN_DIM(dst, 3);          \
    const idx_t i##2 = i##_r2 % PLAIN_DIM(dst, 2), i##_r1 = i##_r2 / PLAIN_DIM(dst, 2);            \
    const idx_t i##1 = i##_r1 % PLAIN_DIM(dst, 1), i##0 = i##_r1 / PLAIN_DIM(dst, 1);
#endif

// The weight of a pixel in a bin, all samples together.
static inline float weight_in_bin(roi_axis a, int i, int pixel, int size) {
    float sum = 0.0f;
    for (int k = 0; k < a.each; ++k) {
        const roi_sample s = sample_of(a, i, k, size);
        sum += (s.before == pixel ? s.of_before : 0.0f) + (s.behind == pixel ? s.of_behind : 0.0f);
    }
    return sum;
}

// The first bin that has samples less than a pixel away from `pixel`, or one before it, and the last, or one behind it.
static inline int first_bin(roi_axis a, int pixel, int bins) {
    if (!(a.bin > 0.0f)) return 0;
    return (int)fmin(fmax(floor(((float)pixel - 1.0f - a.first) / a.bin) - 1.0f, 0.0f), (float)bins);
}
static inline int last_bin(roi_axis a, int pixel, int bins) {
    if (!(a.bin > 0.0f)) return bins - 1;
    return (int)fmin(fmax(floor(((float)pixel + 1.0f - a.first) / a.bin) + 1.0f, -1.0f), (float)(bins - 1));
}

__kernel void roi_align_backward_direct(TENSOR_IN(GRAD, grad), __global const float* restrict boxes,
                                        __global const STORAGE_T(INDEX)* restrict images, TENSOR_OUT(DST, dst),
                                        const float scale, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    float sum = 0.0f;
    const int height = (int)DST_DIM(2), width = (int)DST_DIM(3), down = (int)GRAD_DIM(2), across = (int)GRAD_DIM(3);
    for (idx_t k = 0; k < (DST_INSIDE(i) ? GRAD_DIM(0) : 0); ++k) {
        if (LOAD(INDEX, images, k) != i0) continue;
        AXES_OF_BOX(boxes, k, scale, down, across)
        const int first = first_bin(columns, (int)i3, across), last = last_bin(columns, (int)i3, across);
        const float each = 1.0f / (float)max(rows.each * columns.each, 1);
        for (int h = first_bin(rows, (int)i2, down); h <= last_bin(rows, (int)i2, down); ++h) {
            const float of_row = weight_in_bin(rows, h, (int)i2, height) * each;
            if (of_row == 0.0f) continue;
            for (int w = first; w <= last; ++w) {
                const float weight = of_row * weight_in_bin(columns, w, (int)i3, width);
                if (weight != 0.0f) sum += weight * LOAD(GRAD, grad, GRAD_OFFSET(k, i1, h, w));
            }
        }
    }
    STORE(DST, dst, DST_AT(i), sum);
}
