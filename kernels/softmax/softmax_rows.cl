// Softmax along one dimension, any layout.
//
//   dst = exp(src - m) / s           m the maximum of the row, s the sum of exp(src - m) over it
//   dst = src - m - log(s)           with LOG
// Three passes over the row: maximum, sum, result; a NaN in a row makes all of it NaN.
//
// Tensors: SRC and DST as rows (common/rows.clh), the softmax's dimension last.
// GROUP work-items write one row, padding along it (as zero) included; rows in the padding of other dimensions are
// zero.
#include "common/rows.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, rows of one dimension
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define SRC_DIM(i) ((i) < 6 ? 1 : src_arg.dim[((i) + 2) % 8])
#define SRC_PADDED(i) SRC_DIM(i)
#define DST_DTYPE f32
#define DST_OFFSET(a, b, c, d, e, f, g, h) (dst_arg.offset + (g)*dst_arg.stride[0] + (h)*dst_arg.stride[1])
#define DST_DIM(i) ((i) < 6 ? 1 : dst_arg.dim[((i) + 2) % 8])
#define DST_PADDED(i) DST_DIM(i)
#endif
#ifndef LOG
#define LOG 0  // 1: the logarithm of the softmax
#endif

__kernel void softmax_rows(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0) / GROUP;
    const idx_t first = (idx_t)get_global_id(0) % GROUP;
    if (row >= rows) return;  // whole groups: GROUP divides the work-group
    ROW_DECLARE(i)
    ROW_INDICES(DST, i, row)
    const idx_t size = DST_DIM(7), padded = DST_PADDED(7);
    int inside = 1;
    for (int k = 0; k < 7; ++k) inside &= i[k] < ROW_DIM_OF(DST, k);
#if GROUP > 1
    __local float scratch[GROUP];
#endif
    if (!inside) {  // the same for the whole group
        for (idx_t e = first; e < padded; e += GROUP) {
            i[7] = e;
            STORE(DST, dst, ROW_AT(DST, i), 0);
        }
        return;
    }
    float largest = -INFINITY;
    for (idx_t e = first; e < size; e += GROUP) {
        i[7] = e;
        const float x = LOAD(SRC, src, ROW_AT(SRC, i));
        largest = x > largest || x != x ? x : largest;
    }
    largest = ROW_MAX(scratch, largest);
    float sum = 0.0f;
    for (idx_t e = first; e < size; e += GROUP) {
        i[7] = e;
        sum += exp(LOAD(SRC, src, ROW_AT(SRC, i)) - largest);
    }
    sum = ROW_SUM(scratch, sum);
#if LOG
    const float shift = log(sum);
#else
    const float scale = 1.0f / sum;
#endif
    for (idx_t e = first; e < padded; e += GROUP) {
        i[7] = e;
        if (e >= size) {
            STORE(DST, dst, ROW_AT(DST, i), 0);
            continue;
        }
        const float x = LOAD(SRC, src, ROW_AT(SRC, i)) - largest;
#if LOG
        STORE(DST, dst, ROW_AT(DST, i), x - shift);
#else
        STORE(DST, dst, ROW_AT(DST, i), exp(x) * scale);
#endif
    }
}
