// Batch normalisation with given statistics, any layout.
//
//   dst[n, c, p] = post-ops((src[n, c, p] - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c])
//
// Tensors: SRC and DST (n, c, ...), each in its own layout; operands as DST (common/operands.clh); MEAN, VAR and, where
// the op has them, WEIGHT and BIAS (c).
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "common/operands.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, one row of channels
#define SRC_DTYPE f32
#define SRC_AT(i) PLAIN_OFFSET2(src, i##0, i##1)
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET2(dst, i##0, i##1)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) const idx_t i##1 = (place) % PLAIN_DIM(dst, 1), i##0 = (place) / PLAIN_DIM(dst, 1);
#define MEAN_DTYPE f32
#define MEAN_OFFSET(c) PLAIN_OFFSET1(mean, c)
#define VAR_DTYPE f32
#define VAR_OFFSET(c) PLAIN_OFFSET1(var, c)
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

__kernel void batch_norm_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), TENSOR_IN(MEAN, mean),
                                TENSOR_IN(VAR, var) WEIGHT_PARAMETER BIAS_PARAMETER OPERAND_PARAMETERS,
                                const float eps, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    if (!DST_INSIDE(i)) {
        STORE(DST, dst, DST_AT(i), 0);
        return;
    }
    const float deviation = sqrt(LOAD(VAR, var, VAR_OFFSET(i1)) + eps);
    float y = (LOAD(SRC, src, SRC_AT(i)) - LOAD(MEAN, mean, MEAN_OFFSET(i1))) / deviation;
#ifdef WEIGHT_DTYPE
    y *= LOAD(WEIGHT, weight, WEIGHT_OFFSET(i1));
#endif
#ifdef BIAS_DTYPE
    y += LOAD(BIAS, bias, BIAS_OFFSET(i1));
#endif
    FINISH(float, y, LOAD, DST_AT(i))
    STORE(DST, dst, DST_AT(i), y);
}
