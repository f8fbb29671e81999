// Batch normalisation with given statistics, channels innermost or in blocks, a vector of channels a work-item: four on
// GPUs.
//
//   dst[p, c] = post-ops((src[p, c] - mean[c]) * (weight[c] / sqrt(var[c] + eps)) + bias[c])
//
// Tensors: SRC and DST, dense rows of channels for each position p; operands as DST (common/operands.clh); MEAN, VAR and,
// where the op has them, WEIGHT and BIAS (c).  With BLOCKS: that many blocks of rows for an image, each of `channels` of
// the channels, one after the other.  Channels of a row are a multiple of VECTOR.
//
// A work-item computes ROWS positions of VECTOR channels, whose factor it makes once; neighbours have neighbouring
// channels.  Work-item ids: 0 vectors of channels, 1 positions, ROWS for each, 2 with BLOCKS: blocks of all images.
#include "common/tensor.clh"
#include "common/operands.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#define MEAN_DTYPE f32
#define VAR_DTYPE f32
#endif
#ifndef ROWS
#define ROWS 4  // positions a work-item: 1, 2, 4, 8
#endif
#ifndef VECTOR
#define VECTOR 4  // channels a work-item: 4, 8, 16
#endif
#if VECTOR == 4
typedef float4 vec;
#define LOAD_CHANNELS(T, p, o) LOAD_QUAD(T, p, o)
#define STORE_CHANNELS(T, p, o, v) STORE_QUAD(T, p, o, v)
#define WHOLE_VECTORS
#else
typedef PL_CAT(float, VECTOR) vec;
#define LOAD_CHANNELS(T, p, o) LOADV(T, VECTOR, p, o)
#define STORE_CHANNELS(T, p, o, v) STOREV(T, VECTOR, p, o, v)
#define WHOLE_VECTORS __attribute__((intel_vec_len_hint(1)))  // work-items are not to be the lanes of vectors too
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

__kernel WHOLE_VECTORS
void batch_norm_quad(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), TENSOR_IN(MEAN, mean),
                     TENSOR_IN(VAR, var) WEIGHT_PARAMETER BIAS_PARAMETER OPERAND_PARAMETERS, const float eps,
                     const idx_t channels, const idx_t positions) {
    const idx_t c = (idx_t)get_global_id(0) * VECTOR;
    const idx_t step = (idx_t)get_local_size(1);  // between positions of a work-item, so that groups read side by side
    const idx_t first = (idx_t)get_group_id(1) * step * ROWS + (idx_t)get_local_id(1);
    if (c >= channels || first >= positions) return;
#ifdef BLOCKS
    if ((idx_t)get_global_id(2) >= SRC_DIM(0) * BLOCKS) return;
    const idx_t block = (idx_t)get_global_id(2), at = block * channels * positions, o = block % BLOCKS * channels + c;
#else
    const idx_t at = 0, o = c;
#endif
    const vec middle = LOAD_CHANNELS(MEAN, mean, o);
    vec factor = 1.0f / sqrt(LOAD_CHANNELS(VAR, var, o) + eps);
#ifdef WEIGHT_DTYPE
    factor *= LOAD_CHANNELS(WEIGHT, weight, o);
#endif
    vec shift = (vec)(0.0f);
#ifdef BIAS_DTYPE
    shift = LOAD_CHANNELS(BIAS, bias, o);
#endif
    vec x[ROWS];
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
        if (first + r * step < positions) x[r] = LOAD_CHANNELS(SRC, src, at + (first + r * step) * channels + c);
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
        if (first + r * step < positions) {
            const idx_t to = at + (first + r * step) * channels + c;
            vec y = fma(x[r] - middle, factor, shift);
            FINISH(vec, y, LOAD_CHANNELS, to)
            STORE_CHANNELS(DST, dst, to, y);
        }
}
