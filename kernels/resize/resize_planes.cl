// Images resized by nearest or linear interpolation, plain layouts, for CPUs.
//
//   dst[o, q] = src[o, nearest(q)], or the weighted mean of the neighbours of q (kernels/resize/positions.clh)
//
// Tensors: SRC and DST (o, d, h, w), dense: o the channels of all images.
// A work-item writes up to TILE neighbours of one row along w in PLANES images: their places and weights are found once
// for all of them.  Work-item ids: 0 tiles along w, 1 rows (d, h), 2 PLANES images at a time.
#include "common/tensor.clh"
#include "resize/positions.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef TILE
#define TILE 64  // results side by side: 16 to 128
#endif
#ifndef PLANES
#define PLANES 16  // images: 1 to 64
#endif
#pragma OPENCL FP_CONTRACT ON  // positions are known by now

typedef struct {
    int outer;
    int in[3], out[3];  // d, h, w
    float scale[3];
} resize_arg;

#define AT(row, place) LOAD(SRC, src, plane + (row) + (place))

__kernel __attribute__((intel_vec_len_hint(1)))  // neighbours are the lanes of vectors, not work-items
void resize_planes(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                   const resize_arg t) {
    const int first = (int)get_global_id(0) * TILE, q = (int)get_global_id(1), o0 = (int)get_global_id(2) * PLANES;
    if (first >= t.out[2] || q >= t.out[0] * t.out[1] || o0 >= t.outer) return;
    const int qd = q / t.out[1], qh = q % t.out[1], count = min(TILE, t.out[2] - first);
    int left[TILE];
#if LINEAR
    int right[TILE];
    float weight[TILE];  // of the right one
    for (int i = 0; i < count; ++i) {
        const neighbours w = neighbours_of(first + i, t.scale[2], t.in[2], t.out[2]);
        left[i] = w.place[0];
        right[i] = w.place[1];
        weight[i] = w.weight[1];
    }
    const neighbours d = neighbours_of(qd, t.scale[0], t.in[0], t.out[0]);
    const neighbours h = neighbours_of(qh, t.scale[1], t.in[1], t.out[1]);
    const int near = d.place[0] * t.in[1], far = d.place[1] * t.in[1];
    const int row0 = (near + h.place[0]) * t.in[2], row1 = (near + h.place[1]) * t.in[2];
    const int row2 = (far + h.place[0]) * t.in[2], row3 = (far + h.place[1]) * t.in[2];
#else
    for (int i = 0; i < count; ++i) left[i] = nearest(first + i, t.scale[2], t.in[2]);
    const int row = (nearest(qd, t.scale[0], t.in[0]) * t.in[1] + nearest(qh, t.scale[1], t.in[1])) * t.in[2];
#endif
    for (int o = o0; o < min(o0 + PLANES, t.outer); ++o) {
        const int plane = o * t.in[0] * t.in[1] * t.in[2], to = (o * t.out[0] * t.out[1] + q) * t.out[2] + first;
        for (int i = 0; i < count; ++i) {
#if LINEAR
            const int l = left[i], r = right[i];
            float a = AT(row0, l), b = AT(row0, r);
#if SPATIAL > 1
            a = a * h.weight[0] + AT(row1, l) * h.weight[1];
            b = b * h.weight[0] + AT(row1, r) * h.weight[1];
#endif
#if SPATIAL > 2
            const float c = AT(row2, l) * h.weight[0] + AT(row3, l) * h.weight[1];
            const float e = AT(row2, r) * h.weight[0] + AT(row3, r) * h.weight[1];
            a = a * d.weight[0] + c * d.weight[1];
            b = b * d.weight[0] + e * d.weight[1];
#endif
            STORE(DST, dst, to + i, a * (1.0f - weight[i]) + b * weight[i]);
#else
            STORE(DST, dst, to + i, AT(row, left[i]));
#endif
        }
    }
}
