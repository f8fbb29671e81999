// Batch normalisation with given statistics, channels innermost, four channels a work-item.
//
//   dst[p, c] = activation((src[p, c] - mean[c]) * (weight[c] / sqrt(var[c] + eps)) + bias[c])
//
// Tensors: SRC and DST, dense rows of channels for each position p; MEAN, VAR and, where the op has them, WEIGHT and
// BIAS (c).  c is a multiple of 4.
//
// A work-item computes ROWS positions of four channels, whose factor it makes once; neighbours have neighbouring
// channels.  Work-item ids: 0 quads of channels, 1 positions, ROWS for each.
#include "common/tensor.clh"
#include "common/activation.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#define MEAN_DTYPE f32
#define VAR_DTYPE f32
#endif
#ifndef ROWS
#define ROWS 4  // positions a work-item: 1, 2, 4, 8
#endif
#ifdef WEIGHT_DTYPE
#define WEIGHT_PARAMETER , TENSOR_IN(WEIGHT, weight)
#else
#define WEIGHT_PARAMETER
#endif
#ifdef BIAS_DTYPE
#define BIAS_PARAMETER , TENSOR_IN(BIAS, bias)
#else
#define BIAS_PARAMETER
#endif

__kernel void batch_norm_quad(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), TENSOR_IN(MEAN, mean),
                              TENSOR_IN(VAR, var) WEIGHT_PARAMETER BIAS_PARAMETER, const float eps,
                              const idx_t channels, const idx_t positions) {
    const idx_t c = (idx_t)get_global_id(0) * 4;
    const idx_t step = (idx_t)get_local_size(1);  // between positions of a work-item, so that groups read side by side
    const idx_t first = (idx_t)get_group_id(1) * step * ROWS + (idx_t)get_local_id(1);
    if (c >= channels || first >= positions) return;
    const float4 middle = LOAD_QUAD(MEAN, mean, c);
    float4 factor = 1.0f / sqrt(LOAD_QUAD(VAR, var, c) + eps);
#ifdef WEIGHT_DTYPE
    factor *= LOAD_QUAD(WEIGHT, weight, c);
#endif
    float4 shift = (float4)(0.0f);
#ifdef BIAS_DTYPE
    shift = LOAD_QUAD(BIAS, bias, c);
#endif
    float4 x[ROWS];
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
        if (first + r * step < positions) x[r] = LOAD_QUAD(SRC, src, (first + r * step) * channels + c);
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
        if (first + r * step < positions) {
            const float4 y = fma(x[r] - middle, factor, shift);
            STORE_QUAD(DST, dst, (first + r * step) * channels + c, ACTIVATE(float4, y));
        }
}
