// The gradients of layer_norm and rms_norm, as layer_norm_backward.cl has them, of rows that work-items hold in
// registers, four elements an access: src and grad are read once, for dst and for the sums of weights.
//
// layer_norm_backward_rows: GROUP work-items a row, ROWS rows at a time; a work-group has rows_of_part rows, whose sums
// of weights it writes to sums[part][2][size], for layer_norm_backward_join.cl.
//
// Tensors: SRC, GRAD, DST (rows, size), dense; WEIGHT (size).  Four divide size.
#include "common/tensor.clh"

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
#define ROWS 16  // rows at a time, a power of two
#endif
#ifndef HELD
#define HELD 4  // fours of a row that a work-item holds
#endif
#define LANES_X GROUP
#define LANES_Y ROWS
#include "common/lane_sums.clh"
#ifdef WEIGHT_DTYPE
#define WEIGHT_PARAMETER , __global const STORAGE_T(WEIGHT)* restrict weight
#define WEIGHTS_AT(e) LOAD_QUAD(WEIGHT, weight, e)
#else
#define WEIGHT_PARAMETER
#define WEIGHTS_AT(e) ((float4)(1.0f))
#endif

static inline float sum_of(float4 v) { return (v.s0 + v.s2) + (v.s1 + v.s3); }

// What the work-items of a row have together; `shared` has room for those of one row.
static inline float4 row_sums(__local float4* shared, int lane, float4 value) {
#if GROUP > 1
    SUM_BY_HALVING(GROUP, lane, shared + lane, 1, value)
    barrier(CLK_LOCAL_MEM_FENCE);
    value = shared[0];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    return value;
}

__kernel __attribute__((reqd_work_group_size(GROUP, ROWS, 1)))
void layer_norm_backward_rows(__global const STORAGE_T(SRC)* restrict src,
                              __global const STORAGE_T(GRAD)* restrict grad WEIGHT_PARAMETER,
                              __global STORAGE_T(DST)* restrict dst, __global float* restrict sums, const int rows,
                              const int size, const int rows_of_part, const float eps) {
    const int lx = (int)get_local_id(0), ly = (int)get_local_id(1), part = (int)get_group_id(1);
    __local float4 scratch[GROUP * ROWS];
    __local float4* const shared = scratch + ly * GROUP;
    const float scale = 1.0f / (float)size;
    const int end = min((part + 1) * rows_of_part, rows);
    float4 of_weight[HELD], of_bias[HELD];
    _Pragma("unroll") for (int i = 0; i < HELD; ++i) of_weight[i] = of_bias[i] = (float4)(0.0f);
    for (int first = part * rows_of_part; first < end; first += ROWS) {
        const bool live = first + ly < end;
        const idx_t base = (idx_t)(first + ly) * size;
        float4 x[HELD], g[HELD], sum = (float4)(0.0f);
        _Pragma("unroll") for (int i = 0; i < HELD; ++i) {
            const int e = 4 * (lx + i * GROUP);
            x[i] = g[i] = (float4)(0.0f);
            if (live && e < size) {
                x[i] = LOAD_QUAD(SRC, src, base + e);
                g[i] = LOAD_QUAD(GRAD, grad, base + e);
            }
            sum += x[i];
        }
        float mean = 0.0f;
#if CENTRED
        mean = sum_of(row_sums(shared, lx, sum)) * scale;
#endif
        float4 square = (float4)(0.0f), of_grad = (float4)(0.0f), of_product = (float4)(0.0f);
        _Pragma("unroll") for (int i = 0; i < HELD; ++i) {
            const int e = 4 * (lx + i * GROUP);
            if (e >= size) continue;
            x[i] -= mean;
            const float4 weighted = g[i] * WEIGHTS_AT(e);
            square += x[i] * x[i];
            of_grad += weighted;
            of_product += weighted * x[i];
        }
        const float4 all =
            row_sums(shared, lx, (float4)(sum_of(square), sum_of(of_grad), sum_of(of_product), 0.0f)) * scale;
        const float inverse = 1.0f / sqrt(all.s0 + eps), away = CENTRED ? all.s1 : 0.0f;
        const float along = all.s2 * inverse * inverse;
        if (!live) continue;
        _Pragma("unroll") for (int i = 0; i < HELD; ++i) {
            const int e = 4 * (lx + i * GROUP);
            if (e >= size) continue;
            STORE_QUAD(DST, dst, base + e, inverse * (g[i] * WEIGHTS_AT(e) - away - x[i] * along));
            of_weight[i] += g[i] * x[i] * inverse;
            of_bias[i] += g[i];
        }
    }
    __global float* const own = sums + 2 * (idx_t)part * size;
    _Pragma("unroll") for (int i = 0; i < HELD; ++i) {
        const int e = 4 * (lx + i * GROUP);
        SUM_OVER_LANES(scratch, of_weight[i])
        SUM_OVER_LANES(scratch, of_bias[i])
        if (ly > 0 || e >= size) continue;
        vstore4(of_weight[i], 0, own + e);
        vstore4(of_bias[i], 0, own + size + e);
    }
}
