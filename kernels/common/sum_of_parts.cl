// The second pass of sums that were split: adds their parts, in order, and finishes the result.
//
//   dst[i] = activation(parts[0][i] + parts[1][i] + ... + bias[i % columns] + res[i])
//
// DST, RES and the parts are dense, with `columns` (channels) innermost; the parts are f32.  With SCATTERED positions of
// DST, and so of RES, are apart (common/scattered.clh).  A work-item computes four elements side by side, or one where
// columns is not a multiple of four (QUADS 0).  The order of the additions is fixed, so that results are the same
// from run to run.
#include "common/epilogue.clh"
#include "common/parts.clh"
#include "common/scattered.clh"

#ifndef DST_DTYPE  // on its own: f32
#define DST_DTYPE f32
#define DST_BASE (dst_arg.offset)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_STRIDE(i) PLAIN_STRIDE(dst, i)
#endif
#ifndef SCATTERED
#define SCATTERED 0  // 1: positions of dst are apart: 0, 1
#endif
#if SCATTERED
#define PLACE (SCATTERED_ROW(DST, at / columns) + o)
#else
#define PLACE at
#endif
#ifndef QUADS
#define QUADS 1  // 1: four elements a work-item: 0, 1
#endif

__kernel void sum_of_parts(__global const float* restrict parts, TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                           const idx_t elements, const idx_t columns, const int count) {
#if QUADS
    const idx_t at = (idx_t)get_global_id(0) * 4, o = at % columns;
    if (at >= elements) return;
    SUM_OF_PARTS(float4, sum, count, part, *(__global const float4*)(parts + part * (size_t)elements + at))
    STORE_QUAD(DST, dst, DST_BASE + PLACE, EPILOGUE_QUAD(sum, o, RES_BASE + PLACE));
#else
    const idx_t at = (idx_t)get_global_id(0), o = at % columns;
    if (at >= elements) return;
    SUM_OF_PARTS(float, sum, count, part, parts[part * (size_t)elements + at])
    STORE(DST, dst, DST_BASE + PLACE, EPILOGUE(sum, o, RES_BASE + PLACE));
#endif
}
