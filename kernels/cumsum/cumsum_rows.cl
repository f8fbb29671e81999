// Running sums, products, or logarithms of sums of exponentials, along one dimension, any layout.
//
//   dst[e] = src[0] + src[1] + ... + src[e]      along the row
// or, with JOINED_BY, src[0] * src[1] * ... * src[e], or log(exp(src[0]) + ... + exp(src[e])).
//
// Tensors: SRC and DST as rows (common/rows.clh), the dimension last.
// One work-item writes one row, padding along it (as zero) included; rows in the padding of other dimensions are zero.
// What is joined is kept in f32, in the order of the row, or of integers in 64 bits, and wraps around.
#include "cumsum/joined.clh"

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
