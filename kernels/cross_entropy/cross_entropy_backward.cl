// The gradient of cross entropy by its logits.
//
//   dst[p, i] = grad[p] / divisor * (softmax(src[p])[i] * total - share[i])     share, total: cross_entropy.clh
//
// cross_entropy_divisor: with MEAN the sum of the targets' weights, by one work-group of TOTAL_LANES work-items, in one
// order; the divisor is 1 otherwise.  cross_entropy_backward: GROUP work-items a position.
//
// Tensors: SRC and DST as rows (common/rows.clh), classes last; padding of DST was zeroed before.  TARGET by position, in
// the order of their dimensions; GRAD likewise (NONE) or one element; WEIGHT (classes).
#include "cross_entropy/cross_entropy.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, rows of one dimension
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define SRC_DIM(i) ((i) < 6 ? 1 : src_arg.dim[((i) + 2) % 8])
#define GRAD_DTYPE f32
#define DST_DTYPE f32
#define DST_OFFSET(a, b, c, d, e, f, g, h) (dst_arg.offset + (g)*dst_arg.stride[0] + (h)*dst_arg.stride[1])
#endif
#ifndef NONE
#define NONE 0  // 1: each position has a gradient of its own
#endif
#ifndef MEAN
#define MEAN 1  // 1: the sum was divided by that of the weights
#endif
#ifndef TOTAL_LANES
#define TOTAL_LANES 1  // a power of two: 1 to 256
#endif

__kernel __attribute__((reqd_work_group_size(TOTAL_LANES, 1, 1)))
void cross_entropy_divisor(__global const STORAGE_T(TARGET)* restrict target WEIGHT_PARAMETER,
                           __global float* restrict divisor, const long ignore, const idx_t classes, const idx_t rows) {
    __local float weight_of[TOTAL_LANES];
    const int lane = (int)get_local_id(0);
    float weighs = 0.0f, low = 0.0f;
    for (idx_t row = lane; row < rows; row += TOTAL_LANES) {
        const long wanted = LOAD(TARGET, target, row);
        if (wanted != ignore && IS_CLASS(wanted, classes)) ADD_EXACTLY(weighs, low, WEIGHT_OF(wanted))
    }
    weighs = SUM_WITH_LOW(weighs, low);
    SUM_BY_HALVING(TOTAL_LANES, lane, weight_of + lane, 1, weighs)
    if (lane == 0) divisor[0] = weighs;
}

__kernel void cross_entropy_backward(TENSOR_IN(SRC, src), __global const STORAGE_T(TARGET)* restrict target,
                                     __global const STORAGE_T(GRAD)* restrict grad WEIGHT_PARAMETER,
                                     __global const float* restrict divisor, TENSOR_OUT(DST, dst), const long ignore,
                                     const float smoothing, const idx_t rows) {
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
    const float weight_of_target = counts && valid ? WEIGHT_OF(wanted) : 0.0f;
    const float smooth = smoothing / (float)classes;
    const float total = (1.0f - smoothing) * weight_of_target + smooth * weights;
    const float scale = LOAD(GRAD, grad, NONE ? row : 0) / (MEAN ? divisor[0] : 1.0f);
    for (idx_t e = first; e < classes; e += GROUP) {
        i[7] = e;
        float value = counts ? NAN : 0.0f;
        if (counts && valid) {
            const float share = (e == wanted ? (1.0f - smoothing) * weight_of_target : 0.0f) + smooth * WEIGHT_OF(e);
            value = scale * (exp(LOAD(SRC, src, ROW_AT(SRC, i)) - largest - log_sum) * total - share);
        }
        STORE(DST, dst, ROW_AT(DST, i), value);
    }
}
