// The gradients by weights of layer_norm and rms_norm: the sums of all parts of the rows, in one order.
//
// LANES_X weights a work-group, LANES_Y work-items a weight, which take parts in turns.
// Tensors: parts (parts, 2, weights) of f32, behind `before` others; DWEIGHT, DBIAS (weights).
#include "common/tensor.clh"

#ifndef DWEIGHT_DTYPE  // on its own: f32
#define DWEIGHT_DTYPE f32
#endif
#ifndef CENTRED
#define CENTRED 1  // 0: there is no bias: 0, 1
#endif
#ifndef LANES_X
#define LANES_X 64  // work-items along weights: 32, 64
#endif
#ifndef LANES_Y
#define LANES_Y 1  // work-items that share a weight, a power of two: 1 to 8
#endif
#include "common/lane_sums.clh"

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void layer_norm_backward_join(__global const float* restrict sums, __global STORAGE_T(DWEIGHT)* restrict dweight
#if CENTRED
                              , __global STORAGE_T(DWEIGHT)* restrict dbias
#endif
                              , const int weights, const int parts, const int before) {
    const int lx = (int)get_local_id(0), ly = (int)get_local_id(1), k = (int)get_global_id(0);
    float product = 0.0f, sum = 0.0f;
    if (k < weights) {
        _Pragma("unroll 4") for (int part = ly; part < parts; part += LANES_Y) {
            const idx_t at = before + 2 * (idx_t)part * weights + k;
            product += sums[at];
            sum += sums[at + weights];
        }
    }
    SUM_OF_LANES(float)
    if (ly > 0 || k >= weights) return;
    STORE(DWEIGHT, dweight, k, product);
#if CENTRED
    STORE(DWEIGHT, dbias, k, sum);
#endif
}
