// The positions of a transposed convolution that no tap reaches: dst[n, o, q] = activation(bias[o] + res[n, o, q]).
//
// Tensors: DST (n, oc, d, h, w) with the positions of one phase alone, channels innermost; BIAS (oc).
// One work-item writes one channel of one position; global ids: channel, position.
#include "common/epilogue.clh"

#ifndef DST_DTYPE  // on its own: f32, plain
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif

__kernel void conv_transpose_empty(TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS, const idx_t positions) {
    const idx_t o = (idx_t)get_global_id(0), q = (idx_t)get_global_id(1);
    if (o >= DST_DIM(1) || q >= positions) return;
    const idx_t w = q % DST_DIM(4), lines = q / DST_DIM(4), h = lines % DST_DIM(3), planes = lines / DST_DIM(3);
    const idx_t n = planes / DST_DIM(2), d = planes % DST_DIM(2);
    const float y = EPILOGUE(0.0f, o, RES_OFFSET(n, o, d, h, w));
    STORE(DST, dst, DST_OFFSET(n, o, d, h, w), y);
}
