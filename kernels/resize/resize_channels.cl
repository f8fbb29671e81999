// Images resized by nearest or linear interpolation, vectors of channels that lie side by side, for CPUs.
//
//   dst[o, q, c] = src[o, nearest(q), c], or the weighted mean of the neighbours of q (kernels/resize/positions.clh)
//
// Tensors: SRC and DST (o, d, h, w, run), dense, without padding: o the images and `run` all channels, or o the images'
// blocks of channels and `run` a block; run >= VECTOR.
// A work-item writes one row along w; places and weights along d and h are found once.  A last vector that would leave
// the run begins early.  Work-item ids: 0 h, 1 d, 2 o.
#include "common/tensor.clh"
#include "resize/positions.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef VECTOR
#define VECTOR 16  // channels of a vector: 4, 8, 16
#endif
typedef PL_CAT(float, VECTOR) vec;

#pragma OPENCL FP_CONTRACT ON  // positions are known by now

typedef struct {
    int outer, run;
    int in[3], out[3];  // d, h, w
    float scale[3];
} resize_arg;

__kernel __attribute__((intel_vec_len_hint(1)))  // work-items are not to be the lanes of vectors too
void resize_channels(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                     const resize_arg t) {
    const int qh = (int)get_global_id(0), qd = (int)get_global_id(1), o = (int)get_global_id(2);
    if (qh >= t.out[1] || qd >= t.out[0] || o >= t.outer) return;
    const int to = ((o * t.out[0] + qd) * t.out[1] + qh) * t.out[2] * t.run, last = t.run - VECTOR;
#if LINEAR
    const neighbours d = neighbours_of(qd, t.scale[0], t.in[0], t.out[0]);
    const neighbours h = neighbours_of(qh, t.scale[1], t.in[1], t.out[1]);
    int row[4];  // (d, h): the places of the rows that take part, and their weights
    float weight[4];
    for (int k = 0; k < 4; ++k) {
        weight[k] = (SPATIAL > 2 ? d.weight[k / 2] : 1.0f) * (SPATIAL > 1 ? h.weight[k % 2] : 1.0f);
        row[k] = ((o * t.in[0] + d.place[k / 2]) * t.in[1] + h.place[k % 2]) * t.in[2] * t.run;
    }
#else
    const int d = nearest(qd, t.scale[0], t.in[0]), h = nearest(qh, t.scale[1], t.in[1]);
    const int row = ((o * t.in[0] + d) * t.in[1] + h) * t.in[2] * t.run;
#endif
    for (int qw = 0; qw < t.out[2]; ++qw) {
#if LINEAR
        const neighbours w = neighbours_of(qw, t.scale[2], t.in[2], t.out[2]);
        const int left = w.place[0] * t.run, right = w.place[1] * t.run;
#else
        const int left = nearest(qw, t.scale[2], t.in[2]) * t.run;
#endif
        for (int first = 0; first < t.run; first += VECTOR) {
            const int c = min(first, last);
#if LINEAR
#define ALONG_W(k)                                                                       \
    (LOADV(SRC, VECTOR, src, row[k] + left + c) * (weight[k] * w.weight[0]) +            \
     LOADV(SRC, VECTOR, src, row[k] + right + c) * (weight[k] * w.weight[1]))
            vec y = ALONG_W(0);
#if SPATIAL > 1
            y += ALONG_W(1);
#endif
#if SPATIAL > 2
            y += ALONG_W(2) + ALONG_W(3);
#endif
#else
            const vec y = LOADV(SRC, VECTOR, src, row + left + c);
#endif
            STOREV(DST, VECTOR, dst, to + qw * t.run + c, y);
        }
    }
}
