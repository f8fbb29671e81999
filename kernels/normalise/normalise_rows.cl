// Layer and group normalisation, any layout.
//
//   dst = (src - mean) / sqrt(var + eps) * weight[p] + bias[p]
// with mean and (biased) variance of the row, in two passes: the mean, then the mean of squared differences; of rows that
// keep their mean (normalise/scale.clh) in one.
// p is the element's place in the row (layer norm), or its channel (group norm, PER_CHANNEL).
//
// Tensors: SRC and DST as rows (common/rows.clh); WEIGHT and BIAS of one dimension, where the op has them.
// A row of layer norm is its last ROW_DIMS dimensions.  Group norm's dimensions are (..., n, c, positions...): a row is
// the channels of one group and all positions, ROW_DIMS counts both, and the group is named by row % groups.
// GROUP work-items write one row.  Padding is left alone: the library has filled it with zeros before.
#include "common/rows.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, rows of one dimension
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define SRC_DIM(i) ((i) < 6 ? 1 : src_arg.dim[((i) + 2) % 8])
#define DST_DTYPE f32
#define DST_OFFSET(a, b, c, d, e, f, g, h) (dst_arg.offset + (g)*dst_arg.stride[0] + (h)*dst_arg.stride[1])
#define DST_DIM(i) ((i) < 6 ? 1 : dst_arg.dim[((i) + 2) % 8])
#endif
#include "normalise/scale.clh"
#ifndef PER_CHANNEL
#define PER_CHANNEL 0  // 1: group norm, 0: layer norm
#endif

#ifndef PART_TERMS
#define PART_TERMS 128  // terms summed before they join the whole sum, so that long rows lose no accuracy
#endif
#define MOVE_PART               \
    if (++terms == PART_TERMS) { \
        sum += part;            \
        part = 0.0f;            \
        terms = 0;              \
    }

// Sets i for the row's e-th element and gives the place of its weight.
#if PER_CHANNEL
#define CHANNEL (8 - ROW_DIMS)
#define ELEMENT(e)                                        \
    idx_t rest = (e);                                     \
    for (int k = 7; k > CHANNEL; --k) {                   \
        const idx_t size = ROW_DIM_OF(DST, k);            \
        i[k] = rest % size;                               \
        rest /= size;                                     \
    }                                                     \
    i[CHANNEL] = channel0 + rest;                         \
    const idx_t p = i[CHANNEL];
#else
#define ELEMENT(e)            \
    ROW_PLACE(DST, i, e)      \
    const idx_t p = (e);
#endif

__kernel void normalise_rows(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst),
#ifdef WEIGHT_DTYPE
                             TENSOR_IN(WEIGHT, weight),
#endif
#ifdef BIAS_DTYPE
                             TENSOR_IN(BIAS, bias),
#endif
                             const float eps, const idx_t groups, const idx_t size, const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0) / GROUP;
    const idx_t first = (idx_t)get_global_id(0) % GROUP;
    if (row >= rows) return;  // whole groups: GROUP divides the work-group
    ROW_DECLARE(i)
    ROW_LOGICAL(DST, i, row / groups)
#if PER_CHANNEL
    const idx_t channel0 = row % groups * (ROW_DIM_OF(DST, CHANNEL) / groups);
#endif
#if GROUP > 1
    __local float scratch[GROUP];
#endif
    float sum = 0.0f, part = 0.0f, mean = 0.0f;
    int terms = 0;
#if CENTRED
    for (idx_t e = first; e < size; e += GROUP) {
        ELEMENT(e)
        (void)p;
        part += LOAD(SRC, src, ROW_AT(SRC, i));
        MOVE_PART
    }
    sum += part;
    mean = ROW_SUM(scratch, sum) / size;
    sum = part = 0.0f;
    terms = 0;
#endif
    for (idx_t e = first; e < size; e += GROUP) {
        ELEMENT(e)
        (void)p;
        const float x = LOAD(SRC, src, ROW_AT(SRC, i)) - mean;
        part += x * x;
        MOVE_PART
    }
    sum += part;
    sum = ROW_SUM(scratch, sum);
    const float scale = SCALE_OF(sum, size);
    for (idx_t e = first; e < size; e += GROUP) {
        ELEMENT(e)
        (void)p;
        float y = (LOAD(SRC, src, ROW_AT(SRC, i)) - mean) * scale;
#ifdef WEIGHT_DTYPE
        y *= LOAD(WEIGHT, weight, p);
#endif
#ifdef BIAS_DTYPE
        y += LOAD(BIAS, bias, p);
#endif
        STORE(DST, dst, ROW_AT(DST, i), y);
    }
}
