// The gradient of grid_sample by its images, any layouts: each pixel gathers from the places that read it.
//
//   dst[n, c, q] = sum over the taps k of places p that read pixel q of weights[n, p, k] * grad[n, c, p]
//
// Tensors: GRAD and DST (n, c, d, h, w), each at *_OFFSET of its own layout; of the workspace the lists of all taps of
// an image, by the pixels that they read (common/sorted_list.clh), and the weights of the taps.
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "grid_sample/axis.clh"
#include "common/sorted_list.clh"

#ifndef GRAD_DTYPE  // on its own: f32, plain
#define GRAD_DTYPE f32
#define GRAD_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(grad, n, c, d, h, w)
#define GRAD_DIM(i) PLAIN_DIM(grad, i)
#define DST_DTYPE f32
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_AT(i) PLAIN_OFFSET5(dst, i##0, i##1, i##2, i##3, i##4)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif

__kernel void grid_sample_backward_pixels(TENSOR_IN(GRAD, grad), TENSOR_OUT(DST, dst),
                                          __global const ulong* workspace, const ulong from, const ulong first_weight,
                                          const uint taps, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    float sum = 0.0f;
    if (DST_INSIDE(i)) {
        __global const ulong* list = workspace + from + (size_t)i0 * taps;
        __global const float* weights = (__global const float*)workspace + first_weight + (size_t)i0 * taps;
        const ulong key = LIST_KEY((i2 * DST_DIM(3) + i3) * DST_DIM(4) + i4);
        for (uint at = first_of(list, taps, key); at < taps && HAS_KEY(list[at], key); ++at) {
            const uint tap = (uint)list[at];
            const idx_t p = tap / TAPS, pw = p % GRAD_DIM(4), above = p / GRAD_DIM(4);
            const float given = LOAD(GRAD, grad, GRAD_OFFSET(i0, i1, above / GRAD_DIM(3), above % GRAD_DIM(3), pw));
            sum += weights[tap] * given;
        }
    }
    STORE(DST, dst, DST_AT(i), sum);
}
