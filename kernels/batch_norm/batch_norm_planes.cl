// Batch normalisation with given statistics, channels first, pieces of a plane a work-item.
//
//   dst[n, c, p] = post-ops((src[n, c, p] - mean[c]) * (weight[c] / sqrt(var[c] + eps)) + bias[c])
//
// Tensors: SRC and DST (n, c, positions), dense; operands as DST (common/operands.clh); MEAN, VAR and, where the op has
// them, WEIGHT and BIAS (c).  PIECE divides positions.
//
// A work-item computes STEPS pieces of one plane, `items` pieces apart, all on their way at a time, and makes the factor
// once; neighbours have neighbouring pieces.  `items`: work-items of a plane.
#include "common/pieces.clh"
#include "common/operands.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#define MEAN_DTYPE f32
#define VAR_DTYPE f32
#endif
#ifndef STEPS
#define STEPS 4  // pieces a work-item: 1, 2, 4, 8
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
#define OF_PIECE(T, p, k) p##_piece[k]
#ifdef MORE_DTYPE
#define OPERAND_PIECES(at)                  \
    float res_piece[PIECE], more_piece[PIECE]; \
    PIECE_LOAD(RES, res_piece, res, at)     \
    PIECE_LOAD(MORE, more_piece, more, at)
#elif defined(RES_DTYPE)
#define OPERAND_PIECES(at)                  \
    float res_piece[PIECE];                 \
    PIECE_LOAD(RES, res_piece, res, at)
#else
#define OPERAND_PIECES(at)
#endif

__kernel void batch_norm_planes(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), TENSOR_IN(MEAN, mean),
                                TENSOR_IN(VAR, var) WEIGHT_PARAMETER BIAS_PARAMETER OPERAND_PARAMETERS, const float eps,
                                const divisor items, const divisor channels, const int pieces, const int all) {
    uint rest = (uint)get_global_id(0);
    if (rest >= (uint)all) return;
    PL_SPLIT(rest, items, first)
    const int plane = (int)rest * pieces * PIECE;
    PL_SPLIT(rest, channels, c)
    float y[STEPS][PIECE];
    _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
        const int piece = (int)(first + s * items.by);
        if (piece < pieces) PIECE_LOAD(SRC, y[s], src, plane + piece * PIECE)
    }
    const float middle = LOAD(MEAN, mean, c);
    float factor = 1.0f / sqrt(LOAD(VAR, var, c) + eps);
#ifdef WEIGHT_DTYPE
    factor *= LOAD(WEIGHT, weight, c);
#endif
    float shift = 0.0f;
#ifdef BIAS_DTYPE
    shift = LOAD(BIAS, bias, c);
#endif
    _Pragma("unroll") for (int s = 0; s < STEPS; ++s) {
        const int piece = (int)(first + s * items.by);
        if (piece >= pieces) continue;
        const int to = plane + piece * PIECE;
        OPERAND_PIECES(to)
        _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
            y[s][k] = fma(y[s][k] - middle, factor, shift);
            FINISH(float, y[s][k], OF_PIECE, k)
        }
        PIECE_STORE(DST, y[s], dst, to)
    }
}
