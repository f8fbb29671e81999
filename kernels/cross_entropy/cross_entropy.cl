// Cross entropy of logits along one dimension and classes given by number.
//
//   loss[p] = -(sum over i of share[i] * log_softmax(src[p])[i])     share: cross_entropy.clh
//
// cross_entropy_rows: the loss of each position and, unless NONE, what its target weighs; cross_entropy: their sum, with
// MEAN divided by the sum of the weights, by one work-group of TOTAL_LANES work-items, in one order.
//
// Tensors: SRC as rows (common/rows.clh), classes last; TARGET and LOSSES (f32 between the launches) by position, in the
// order of their dimensions; WEIGHT (classes); DST one element.
#include "cross_entropy/cross_entropy.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, rows of one dimension
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define SRC_DIM(i) ((i) < 6 ? 1 : src_arg.dim[((i) + 2) % 8])
#define LOSSES_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef NONE
#define NONE 0  // 1: losses are the result
#endif
#ifndef MEAN
#define MEAN 1  // 1: the sum is divided by that of the weights
#endif
#ifndef TOTAL_LANES
#define TOTAL_LANES 1  // a power of two: 1 to 256
#endif

__kernel void cross_entropy_rows(TENSOR_IN(SRC, src), __global const STORAGE_T(TARGET)* restrict target WEIGHT_PARAMETER,
                                 __global STORAGE_T(LOSSES)* restrict losses, const long ignore, const float smoothing,
                                 const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0) / GROUP, first = (idx_t)get_global_id(0) % GROUP;
    if (row >= rows) return;  // whole groups: GROUP divides the work-group
#if GROUP > 1
    __local float scratch[GROUP];
#endif
    ROW_DECLARE(i)
    ROW_LOGICAL(SRC, i, row)
    const idx_t classes = SRC_DIM(7);
    const long wanted = LOAD(TARGET, target, row);
    const bool counts = wanted != ignore, valid = IS_CLASS(wanted, classes);
    ROW_LOG_SUM(classes)
    const float shift = largest + log_sum;
    float smooth = 0.0f;
    if (smoothing > 0.0f) {
        for (idx_t e = first; e < classes; e += GROUP) {
            i[7] = e;
            smooth += WEIGHT_OF(e) * (LOAD(SRC, src, ROW_AT(SRC, i)) - shift);
        }
        smooth = ROW_SUM(scratch, smooth);
    }
    if (first > 0) return;
    float loss = 0.0f, weight_of_target = 0.0f;
    if (counts && valid) {
        i[7] = (idx_t)wanted;
        weight_of_target = WEIGHT_OF(wanted);
        loss = -(1.0f - smoothing) * weight_of_target * (LOAD(SRC, src, ROW_AT(SRC, i)) - shift);
        if (smoothing > 0.0f) loss -= smoothing / (float)classes * smooth;
    } else if (counts) {
        loss = NAN;
    }
    STORE(LOSSES, losses, row, loss);
#if !NONE
    STORE(LOSSES, losses, rows + row, weight_of_target);
#endif
}

#if !NONE
__kernel __attribute__((reqd_work_group_size(TOTAL_LANES, 1, 1)))
void cross_entropy(__global const float* restrict losses, __global STORAGE_T(DST)* restrict dst, const idx_t rows) {
    __local float loss_of[TOTAL_LANES], weight_of[TOTAL_LANES];
    const int lane = (int)get_local_id(0);
    float loss = 0.0f, loss_low = 0.0f, weighs = 0.0f, weighs_low = 0.0f;
    for (idx_t row = lane; row < rows; row += TOTAL_LANES) {
        ADD_EXACTLY(loss, loss_low, losses[row])
        ADD_EXACTLY(weighs, weighs_low, losses[rows + row])
    }
    loss = SUM_WITH_LOW(loss, loss_low);
    weighs = SUM_WITH_LOW(weighs, weighs_low);
    SUMS_BY_HALVING(TOTAL_LANES, lane, loss_of + lane, weight_of + lane, 1, loss, weighs)
    if (lane == 0) STORE(DST, dst, 0, MEAN ? loss / weighs : loss);
}
#endif
