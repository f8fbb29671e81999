// Which pixels the places of a grid read, and with which weights: for the gradient of grid_sample by its images.
//
//   numbers[n, p, k] = the number of the k-th pixel of place p, (d * height + h) * width + w
//   weights[n, p, k] = its weight
//
// with the pixels and weights of grid_sample/axis.clh.  What lies outside of the image gets the largest number of s32.
// Tensors, dense: grid, f32: (n, p, SPATIAL); numbers, of s32, and weights, f32: (n, p, TAPS), in one workspace.
// One work-item writes the taps of one place.
#include "common/tensor.clh"
#include "grid_sample/axis.clh"

__kernel void grid_sample_taps(__global const float* restrict grid, __global int* workspace, const ulong first_number,
                               const ulong first_weight, const int size_d, const int size_h, const int size_w,
                               const uint places) {
    const uint place = (uint)get_global_id(0);
    if (place >= places) return;
    const size_t at = (size_t)place * SPATIAL;
    AXES_OF_PLACE(grid, at, size_d, size_h, size_w)
    __global int* numbers = workspace + first_number + (size_t)place * TAPS;
    __global float* weights = (__global float*)workspace + first_weight + (size_t)place * TAPS;
    for (int k = 0; k < TAPS; ++k) numbers[k] = 0x7fffffff;
    EACH_PIXEL(kd, kh, kw) {
        const int k = (kd * PARTS_H + kh) * PARTS + kw;
        numbers[k] = (int)((d.pixel[kd] * size_h + h.pixel[kh]) * size_w + w.pixel[kw]);
        weights[k] = d.weight[kd] * h.weight[kh] * w.weight[kw];
    }
}
