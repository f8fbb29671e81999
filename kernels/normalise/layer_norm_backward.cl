// The gradients of layer_norm and rms_norm; dense tensors, a row's elements side by side.
//
// With h = (src - mean) / sqrt(variance + eps) (CENTRED 0: src / sqrt(mean(src^2) + eps)), g = grad * weight, and means
// over a row:
//   dst = (g - mean(g) - h * mean(g * h)) / sqrt(variance + eps)     CENTRED 0: without mean(g)
//   dweight = sum of grad * h, dbias = sum of grad, over rows
//
// layer_norm_backward: dst, GROUP work-items a row, and of each row its mean and 1 / sqrt(variance + eps), stats[row][2].
// layer_norm_backward_parts: the other sums of each part of the rows, LANES_X weights a work-group, LANES_Y work-items a
// weight, which lie behind the rows' numbers, parts[part][2][weight].  layer_norm_backward_join.cl adds them.
//
// Tensors: SRC, GRAD, DST (rows, size); WEIGHT (size).
#include "common/rows.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define GRAD_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef CENTRED
#define CENTRED 1  // 0: the root of the mean square: 0, 1
#endif
#ifndef LANES_X
#define LANES_X 1  // work-items along weights: 1 to 64
#endif
#ifndef LANES_Y
#define LANES_Y 1  // work-items that share a weight, a power of two: 1 to 256
#endif
#include "common/lane_sums.clh"
#ifdef WEIGHT_DTYPE
#define WEIGHT_PARAMETER , __global const STORAGE_T(WEIGHT)* restrict weight
#define WEIGHT_OF(e) LOAD(WEIGHT, weight, e)
#else
#define WEIGHT_PARAMETER
#define WEIGHT_OF(e) 1.0f
#endif

typedef struct {
    int rows, size;
    int parts, rows_of_part;
} norm_rows;

__kernel void layer_norm_backward(__global const STORAGE_T(SRC)* restrict src,
                                  __global const STORAGE_T(GRAD)* restrict grad WEIGHT_PARAMETER,
                                  __global STORAGE_T(DST)* restrict dst, __global float* restrict stats,
                                  const norm_rows shape, const float eps) {
    const int row = (int)get_global_id(0) / GROUP, first = (int)get_global_id(0) % GROUP;
    if (row >= shape.rows) return;  // whole groups: GROUP divides the work-group
#if GROUP > 1
    __local float scratch[GROUP];
#endif
    const idx_t base = (idx_t)row * shape.size;
    const float scale = 1.0f / (float)shape.size;
    float mean = 0.0f, square = 0.0f, of_grad = 0.0f, of_product = 0.0f;
#if CENTRED
    for (int e = first; e < shape.size; e += GROUP) mean += LOAD(SRC, src, base + e);
    mean = ROW_SUM(scratch, mean) * scale;
#endif
    for (int e = first; e < shape.size; e += GROUP) {
        const float x = LOAD(SRC, src, base + e) - mean, g = LOAD(GRAD, grad, base + e) * WEIGHT_OF(e);
        square += x * x;
        of_grad += g;
        of_product += g * x;
    }
    const float inverse = 1.0f / sqrt(ROW_SUM(scratch, square) * scale + eps);
    of_product = ROW_SUM(scratch, of_product) * scale * inverse;
    of_grad = CENTRED ? ROW_SUM(scratch, of_grad) * scale : 0.0f;
    for (int e = first; e < shape.size; e += GROUP) {
        const float h = (LOAD(SRC, src, base + e) - mean) * inverse;
        const float g = LOAD(GRAD, grad, base + e) * WEIGHT_OF(e);
        STORE(DST, dst, base + e, inverse * (g - of_grad - h * of_product));
    }
    if (first > 0) return;
    stats[2 * row] = mean;
    stats[2 * row + 1] = inverse;
}

#define PART_AT(part, k) (2 * (idx_t)shape.rows + ((idx_t)(part)*2 + (k)) * shape.size)

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void layer_norm_backward_parts(__global const STORAGE_T(SRC)* restrict src,
                               __global const STORAGE_T(GRAD)* restrict grad, __global float* restrict stats,
                               const norm_rows shape) {
    const int lx = (int)get_local_id(0), ly = (int)get_local_id(1), part = (int)get_group_id(1);
    const int k = (int)get_group_id(0) * LANES_X + lx;
    const int begin = part * shape.rows_of_part;
    const int end = k < shape.size ? min(begin + shape.rows_of_part, shape.rows) : begin;
    float sum = 0.0f, product = 0.0f;
    for (int row = begin + ly; row < end; row += LANES_Y) {
        const idx_t at = (idx_t)row * shape.size + k;
        const float g = LOAD(GRAD, grad, at);
        sum += g;
        product += g * ((LOAD(SRC, src, at) - stats[2 * row]) * stats[2 * row + 1]);
    }
    SUM_OF_LANES(float)
    if (ly > 0 || k >= shape.size) return;
    stats[PART_AT(part, 0) + k] = product;
    stats[PART_AT(part, 1) + k] = sum;
}
