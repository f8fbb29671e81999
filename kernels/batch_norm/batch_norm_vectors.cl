// Batch normalisation with given statistics by vectors of positions, for CPUs: of dense tensors without padding.
//
//   dst = post-ops((src - mean[c]) * (weight[c] / sqrt(var[c] + eps)) + bias[c])      c = row % channels
//
// Tensors: SRC and DST, addressed alike by common/row_vectors.clh: a row is what one channel of one image has, and a
// work-item takes one (ACROSS 0).  Operands as DST (common/operands.clh).  MEAN, VAR and, where the op has them, WEIGHT and BIAS (c).
#include "common/row_vectors.clh"
#include "common/operands.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#define MEAN_DTYPE f32
#define VAR_DTYPE f32
#endif
#define FACTORS LOAD
#include "normalise/weights.clh"

#define LOAD_VECTOR(T, p, at) LOADV(T, VECTOR, p, at)
#define RESULT(k, c, at, b, s, r, fresh, tail)                                           \
    {                                                                                    \
        vec y = (LOADV(SRC, VECTOR, src, at) - middle) * factor + shift;                 \
        FINISH(vec, y, LOAD_VECTOR, at)                                                  \
        STOREV(DST, VECTOR, dst, at, y);                                                 \
    }

ROW_KERNEL void batch_norm_vectors(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                                   __global const STORAGE_T(MEAN)* restrict mean,
                                   __global const STORAGE_T(VAR)* restrict var WEIGHT_PARAMETER BIAS_PARAMETER
                                       OPERAND_PARAMETERS,
                                   const row_walk walk, const float eps, const idx_t channels) {
    ROW_BEGIN(walk)
    const idx_t channel = (o_ * walk.inner + i_) % channels;
    const float middle = LOAD(MEAN, mean, channel);
    float factor = 1.0f / sqrt(LOAD(VAR, var, channel) + eps), shift = 0.0f;
#ifdef WEIGHT_DTYPE
    factor *= LOAD(WEIGHT, weight, channel);
#endif
#ifdef BIAS_DTYPE
    shift = LOAD(BIAS, bias, channel);
#endif
    ROW_WALK(walk, RESULT)
}
