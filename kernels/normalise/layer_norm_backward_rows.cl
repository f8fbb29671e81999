// The gradients of layer_norm and rms_norm, as layer_norm_backward.cl has them, of rows that work-items hold in
// registers, four elements an access; what it calls h, stats and parts is the same here, and its launch joins the parts.
//
// layer_norm_backward_rows: GROUP work-items a row, ROWS rows a work-group; src and grad are read once.
// layer_norm_backward_rows_parts: LANES_X fours of weights a work-group, LANES_Y work-items a weight.
//
// Tensors: SRC, GRAD, DST (rows, size), dense; WEIGHT (size).  Four divide size.
#include "common/tensor.clh"
#include "common/lane_sums.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define GRAD_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef CENTRED
#define CENTRED 1  // 0: the root of the mean square: 0, 1
#endif
#ifndef GROUP
#define GROUP 8  // work-items a row, a power of two: 1 to 256
#endif
#ifndef ROWS
#define ROWS 16  // rows a work-group
#endif
#ifndef HELD
#define HELD 4  // fours of a row that a work-item holds
#endif
#ifndef LANES_X
#define LANES_X 8  // work-items along weights, of layer_norm_backward_rows_parts
#endif
#ifndef LANES_Y
#define LANES_Y 16  // work-items that share weights, a power of two
#endif
#ifdef WEIGHT_DTYPE
#define WEIGHT_PARAMETER , __global const STORAGE_T(WEIGHT)* restrict weight
#define WEIGHTS_AT(e) LOAD_QUAD(WEIGHT, weight, e)
#else
#define WEIGHT_PARAMETER
#define WEIGHTS_AT(e) ((float4)(1.0f))
#endif

typedef struct {
    int rows, size, groups, positions;
    int weights, parts, elements_of_part;  // of those that a weight is for
} norm_rows;

static inline float sum_of(float4 v) { return (v.s0 + v.s2) + (v.s1 + v.s3); }

// What the work-items of a row have together; `shared` has room for those of one row.
static inline float4 row_sums(__local float4* shared, int lane, float4 value) {
#if GROUP > 1
    shared[lane] = value;
    for (int half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_) shared[lane] = value = value + shared[lane + half_];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    value = shared[0];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    return value;
}

__kernel __attribute__((reqd_work_group_size(GROUP, ROWS, 1)))
void layer_norm_backward_rows(__global const STORAGE_T(SRC)* restrict src,
                              __global const STORAGE_T(GRAD)* restrict grad WEIGHT_PARAMETER,
                              __global STORAGE_T(DST)* restrict dst, __global float* restrict stats,
                              const norm_rows shape, const float eps) {
    const int lane = (int)get_local_id(0), row = (int)get_global_id(1);
    const bool live = row < shape.rows;
    __local float4 scratch[GROUP * ROWS];
    __local float4* const shared = scratch + (int)get_local_id(1) * GROUP;
    const idx_t base = (idx_t)row * shape.size;
    const float scale = 1.0f / (float)shape.size;
    float4 x[HELD], g[HELD], sum = (float4)(0.0f);
    _Pragma("unroll") for (int i = 0; i < HELD; ++i) {
        const int e = 4 * (lane + i * GROUP);
        x[i] = g[i] = (float4)(0.0f);
        if (live && e < shape.size) {
            x[i] = LOAD_QUAD(SRC, src, base + e);
            g[i] = LOAD_QUAD(GRAD, grad, base + e) * WEIGHTS_AT(e);
        }
        sum += x[i];
    }
    float mean = 0.0f;
#if CENTRED
    mean = sum_of(row_sums(shared, lane, sum)) * scale;
#endif
    float4 square = (float4)(0.0f), of_grad = (float4)(0.0f), of_product = (float4)(0.0f);
    _Pragma("unroll") for (int i = 0; i < HELD; ++i) {
        if (4 * (lane + i * GROUP) < shape.size) x[i] -= mean;
        square += x[i] * x[i];
        of_grad += g[i];
        of_product += g[i] * x[i];
    }
    const float4 all = row_sums(shared, lane, (float4)(sum_of(square), sum_of(of_grad), sum_of(of_product), 0.0f)) * scale;
    const float inverse = 1.0f / sqrt(all.s0 + eps), away = CENTRED ? all.s1 : 0.0f, along = all.s2 * inverse * inverse;
    if (!live) return;
    _Pragma("unroll") for (int i = 0; i < HELD; ++i) {
        const int e = 4 * (lane + i * GROUP);
        if (e < shape.size) STORE_QUAD(DST, dst, base + e, inverse * (g[i] - away - x[i] * along));
    }
    if (lane > 0) return;
    stats[2 * row] = mean;
    stats[2 * row + 1] = inverse;
}

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void layer_norm_backward_rows_parts(__global const STORAGE_T(SRC)* restrict src,
                                    __global const STORAGE_T(GRAD)* restrict grad, __global float* restrict stats,
                                    const norm_rows shape) {
    const int lx = (int)get_local_id(0), ly = (int)get_local_id(1), part = (int)get_group_id(1);
    const int k = 4 * (int)get_global_id(0);
    const int begin = part * shape.elements_of_part;
    const int end = k < shape.weights ? min(begin + shape.elements_of_part, shape.rows) : begin;
    float4 sum = (float4)(0.0f), product = (float4)(0.0f);
    _Pragma("unroll 4") for (int row = begin + ly; row < end; row += LANES_Y) {
        const idx_t at = (idx_t)row * shape.size + k;
        const float4 g = LOAD_QUAD(GRAD, grad, at);
        sum += g;
        product += g * ((LOAD_QUAD(SRC, src, at) - stats[2 * row]) * stats[2 * row + 1]);
    }
    SUM_OF_LANES(float4)
    if (ly > 0 || k >= shape.weights) return;
    __global float* const own = stats + 2 * (idx_t)shape.rows + 2 * (idx_t)part * shape.weights + k;
    vstore4(product, 0, own);
    vstore4(sum, 0, own + shape.weights);
}
