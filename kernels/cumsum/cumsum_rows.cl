// Running sums, products, or logarithms of sums of exponentials, along one dimension, any layout.
//
//   dst[e] = src[0] + src[1] + ... + src[e]      along the row
// or, with JOINED_BY, src[0] * src[1] * ... * src[e], or log(exp(src[0]) + ... + exp(src[e])).
//
// Tensors: SRC and DST as rows (common/rows.clh), the dimension last.
// One work-item writes one row, padding along it (as zero) included; rows in the padding of other dimensions are zero.
// What is joined is kept in f32, in the order of the row, or of integers in 64 bits, and wraps around.
#include "common/rows.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, rows of one dimension
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define DST_DTYPE f32
#define DST_OFFSET(a, b, c, d, e, f, g, h) (dst_arg.offset + (g)*dst_arg.stride[0] + (h)*dst_arg.stride[1])
#define DST_DIM(i) ((i) < 6 ? 1 : dst_arg.dim[((i) + 2) % 8])
#define DST_PADDED(i) DST_DIM(i)
#endif
#ifndef INTEGERS
#define INTEGERS 0  // 1: of an integer dtype
#endif
#if INTEGERS
typedef ulong sum_t;
#define STORE_SUM(T, p, o, v) STORE_WRAP(T, p, o, (long)(v))
#else
typedef float sum_t;
#define STORE_SUM STORE
#endif

#ifndef JOINED_BY
#define JOINED_BY JOIN_SUM  // JOIN_SUM, JOIN_PRODUCT, JOIN_EXPONENTS (not of integers)
#endif
#define JOIN_SUM 0
#define JOIN_PRODUCT 1
#define JOIN_EXPONENTS 2
#if JOINED_BY == JOIN_EXPONENTS
// Nothing is -infinity; where both are, or one is infinity, the difference would be NaN.
static inline float joined(const float a, const float b) {
    if (isnan(a) || isnan(b)) return NAN;
    const float larger = fmax(a, b);
    return isinf(larger) ? larger : larger + log1p(exp(fmin(a, b) - larger));
}
#define NOTHING (-INFINITY)
#define JOINED(a, b) joined(a, b)
#elif JOINED_BY == JOIN_PRODUCT
#define NOTHING 1
#define JOINED(a, b) ((a) * (b))
#else
#define NOTHING 0
#define JOINED(a, b) ((a) + (b))
#endif

__kernel void cumsum_rows(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0);
    if (row >= rows) return;
    ROW_DECLARE(i)
    ROW_INDICES(DST, i, row)
    int inside = 1;
    for (int k = 0; k < 7; ++k) inside &= i[k] < ROW_DIM_OF(DST, k);
    const idx_t size = inside ? DST_DIM(7) : 0, padded = DST_PADDED(7);
    sum_t sum = NOTHING;
    for (idx_t e = 0; e < padded; ++e) {
        i[7] = e;
        if (e < size) sum = JOINED(sum, (sum_t)LOAD(SRC, src, ROW_AT(SRC, i)));
        STORE_SUM(DST, dst, ROW_AT(DST, i), e < size ? sum : 0);
    }
}
