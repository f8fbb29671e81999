// Place of the largest or smallest element of each row, any layout.
//
//   dst[row] = the first e of those with the largest src[row, e] (ARG_MIN: the smallest); a NaN beats every number
//
// Tensors: SRC as rows (common/rows.clh); DST (s64) with the same dimensions, those of the row of size 1.
// GROUP work-items write one element: each finds the best of its own elements, a tree in local memory the best of all.
// Assumes that a row has at least GROUP elements.  Padding is left alone: the library has filled it with zeros before.
#include "common/rows.clh"
#include "arg_reduce/order.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain, rows of one dimension
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define SRC_DIM(i) ((i) < 6 ? 1 : src_arg.dim[((i) + 2) % 8])
#define DST_DTYPE s64
#define DST_OFFSET(a, b, c, d, e, f, g, h) (dst_arg.offset + (g)*dst_arg.stride[0])
#endif
#define BEATS(x, y) (BEYOND(x, y) || ((x) != (x) && (y) == (y)))

__kernel void arg_reduce_rows(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const idx_t size, const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0) / GROUP;
    const idx_t first = (idx_t)get_global_id(0) % GROUP;
    if (row >= rows) return;  // whole groups: GROUP divides the work-group
    ROW_DECLARE(i)
    ROW_LOGICAL(SRC, i, row)
    ROW_PLACE(SRC, i, first)
    COMPUTE_T(SRC) best = LOAD(SRC, src, ROW_AT(SRC, i));
    idx_t place = first;
    for (idx_t e = first + GROUP; e < size; e += GROUP) {
        ROW_PLACE(SRC, i, e)
        const COMPUTE_T(SRC) x = LOAD(SRC, src, ROW_AT(SRC, i));
        if (BEATS(x, best)) {
            best = x;
            place = e;
        }
    }
#if GROUP > 1
    __local COMPUTE_T(SRC) bests[GROUP];
    __local idx_t places[GROUP];
    bests[first] = best;
    places[first] = place;
    HALVING(half_, GROUP, first,
            const COMPUTE_T(SRC) x = bests[first + half_];
            const idx_t e = places[first + half_];
            if (BEATS(x, best) || (!BEATS(best, x) && e < place)) {
                bests[first] = best = x;
                places[first] = place = e;
            })
#endif
    for (int k = 8 - ROW_DIMS; k < 8; ++k) i[k] = 0;
    if (first == 0) STORE(DST, dst, ROW_AT(DST, i), (long)place);
}
