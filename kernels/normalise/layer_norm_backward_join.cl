// The gradients by weights of layer_norm and rms_norm: the sums of all parts of the rows, in one order.
//
// LANES_X weights a work-group, LANES_Y work-items a weight, which take sixteen parts each in turns.
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
#include "common/parts.clh"

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void layer_norm_backward_join(__global const float* restrict sums, __global STORAGE_T(DWEIGHT)* restrict dweight
#if CENTRED
                              , __global STORAGE_T(DWEIGHT)* restrict dbias
#endif
                              , const int weights, const int parts, const int before) {
    const int lx = (int)get_local_id(0), ly = (int)get_local_id(1), k = (int)get_global_id(0);
    __local float2 some_of[LANES_Y * LANES_X];
    float product = 0.0f, sum = 0.0f;
    for (int first = 0; first < parts; first += PL_PARTS_AT_ONCE * LANES_Y) {
        float2 some = (float2)(0.0f);
        if (k < weights) {
            _Pragma("unroll") for (int p = 0; p < PL_PARTS_AT_ONCE; ++p) {
                const int part = first + ly * PL_PARTS_AT_ONCE + p;
                const idx_t at = before + 2 * (idx_t)part * weights + k;
                if (part < parts) some += (float2)(sums[at], sums[at + weights]);
            }
        }
        some_of[ly * LANES_X + lx] = some;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (ly == 0) {  // in the order of SUM_OF_PARTS
            for (int lane = 0; lane < LANES_Y; ++lane) {
                product += some_of[lane * LANES_X + lx].s0;
                sum += some_of[lane * LANES_X + lx].s1;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (ly > 0 || k >= weights) return;
    STORE(DWEIGHT, dweight, k, product);
#if CENTRED
    STORE(DWEIGHT, dbias, k, sum);
#endif
}
