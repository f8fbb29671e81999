// Rotary position embedding, any layouts.
//
//   dst[.., i] = src[.., i] * cos[.., i] - src[.., i + TURNED / 2] * sin[.., i]     for i < TURNED / 2
//   dst[.., i] = src[.., i] * cos[.., i] + src[.., i - TURNED / 2] * sin[.., i]     for TURNED / 2 <= i < TURNED
//   dst[.., i] = src[.., i]                                                         for TURNED <= i
//
// INTERLEAVED: a pair is columns i and i + 1, i even, in the place of columns i and i + TURNED / 2.
//
// Tensors: SRC and DST as rows (common/rows.clh, the columns last), COSINES and SINES alike with strides of 0 where they are
// repeated.  One work-item computes one element of dst, or of its padding, which is zero.
#include "common/rows.clh"

#ifndef TURNED
#define TURNED 16      // columns of COSINES and SINES
#define INTERLEAVED 0  // whether pairs are neighbours
#endif
#ifndef SRC_DTYPE  // on its own: f32, plain matrices
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define COSINES_DTYPE f32
#define COSINES_OFFSET(a, b, c, d, e, f, g, h) (cosines_arg.offset + (g)*cosines_arg.stride[0] + (h)*cosines_arg.stride[1])
#define SINES_DTYPE f32
#define SINES_OFFSET(a, b, c, d, e, f, g, h) (sines_arg.offset + (g)*sines_arg.stride[0] + (h)*sines_arg.stride[1])
#define DST_DTYPE f32
#define DST_OFFSET(a, b, c, d, e, f, g, h) (dst_arg.offset + (g)*dst_arg.stride[0] + (h)*dst_arg.stride[1])
#define DST_DIM(i) ((i) < 6 ? 1 : dst_arg.dim[((i) + 2) % 8])
#define DST_PADDED(i) DST_DIM(i)
#endif

__kernel void rotary_rows(TENSOR_IN(SRC, src), TENSOR_IN(COSINES, cosines), TENSOR_IN(SINES, sines), TENSOR_OUT(DST, dst),
                          const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    ROW_DECLARE(i)
    ROW_INDICES(DST, i, place / DST_PADDED(7))
    const idx_t column = place % DST_PADDED(7);
    i[7] = column;
    int inside = 1;
    for (int d = 0; d < 8; ++d) inside &= i[d] < ROW_DIM_OF(DST, d);
    float y = 0.0f;
    if (inside) {
        y = LOAD(SRC, src, ROW_AT(SRC, i));
        if (column < TURNED) {
            const int first = INTERLEAVED ? column % 2 == 0 : column < TURNED / 2;
            const idx_t apart = INTERLEAVED ? 1 : TURNED / 2;
            const float turn = LOAD(SINES, sines, ROW_AT(SINES, i));
            y *= LOAD(COSINES, cosines, ROW_AT(COSINES, i));
            i[7] = first ? column + apart : column - apart;
            y = fma(LOAD(SRC, src, ROW_AT(SRC, i)), first ? -turn : turn, y);
            i[7] = column;
        }
    }
    STORE(DST, dst, ROW_AT(DST, i), y);
}
