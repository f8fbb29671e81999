// Boxes of images as small images of one size, any layouts.
//
//   dst[k, c, i, j] = the mean, or the largest, of the samples of bin (i, j) of box k in image images[k]
//
// with the samples of roi_align/box.clh.
// Tensors: SRC (n, c, h, w) and DST (k, c, i, j), each at *_OFFSET of its own layout; boxes (k, 4), f32, and
// images (k), INDEX, s32 or s64, dense.  Of an image that there is not, the result is zero.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "roi_align/box.clh"

#ifndef LARGEST
#define LARGEST 0  // 1: of all weighted pixels of the samples the largest
#endif
#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, h, w) PLAIN_OFFSET4(src, n, c, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
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

// What has no weight is 0, also where the pixel is infinite: a sample outside of the image has places, but no pixels.
#define TAKE(row, column, weight)                                                                  \
    {                                                                                              \
        const float weight_ = weight;                                                              \
        float x_ = 0.0f;                                                                           \
        if (weight_ != 0.0f) x_ = weight_ * LOAD(SRC, src, SRC_OFFSET(image, i1, row, column));    \
        y = LARGEST ? (y > x_ ? y : x_) : y + x_;                                                  \
    }

__kernel void roi_align_direct(TENSOR_IN(SRC, src), __global const float* restrict boxes,
                               __global const STORAGE_T(INDEX)* restrict images, TENSOR_OUT(DST, dst),
                               const float scale, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    float y = 0.0f;
    const long wanted = DST_INSIDE(i) ? (long)LOAD(INDEX, images, i0) : -1;
    if (wanted >= 0 && wanted < SRC_DIM(0)) {
        const idx_t image = (idx_t)wanted;
        AXES_OF_BOX(boxes, i0, scale, (int)DST_DIM(2), (int)DST_DIM(3))
        const int count = rows.each * columns.each;
        if (LARGEST && count > 0) y = -INFINITY;
        for (int down = 0; down < rows.each; ++down) {
            const roi_sample r = sample_of(rows, (int)i2, down, (int)SRC_DIM(2));
            for (int across = 0; across < columns.each; ++across) {
                const roi_sample c = sample_of(columns, (int)i3, across, (int)SRC_DIM(3));
                TAKE(r.before, c.before, r.of_before * c.of_before)
                TAKE(r.before, c.behind, r.of_before * c.of_behind)
                TAKE(r.behind, c.before, r.of_behind * c.of_before)
                TAKE(r.behind, c.behind, r.of_behind * c.of_behind)
            }
        }
        if (!LARGEST) y /= (float)max(count, 1);
    }
    STORE(DST, dst, DST_AT(i), y);
}
