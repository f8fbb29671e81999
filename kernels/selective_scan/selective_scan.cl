// Selective scan, any layouts.
//
//   h[t, i] = exp(delta[n, d, t] * rates[d, i]) * h[t - 1, i] + delta[n, d, t] * taken[n, t, i] * src[n, d, t]
//   dst[n, d, t] = sum over i of given[n, t, i] * h[t, i]
//
// Tensors, with eight dimensions (common/rows.clh): SRC, DELTA and DST (.., n, d, t), RATES (.., d, i), TAKEN and GIVEN (.., n, t, i).
// One work-item computes one channel of one image, all steps; padding of dst is zero.
#include "common/rows.clh"

#ifndef STATES
#define STATES 16  // of a channel: 1 ... 256
#endif
#ifndef SRC_DTYPE  // on its own: f32, one image, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define DELTA_DTYPE f32
#define DELTA_OFFSET(a, b, c, d, e, f, g, h) (delta_arg.offset + (g)*delta_arg.stride[0] + (h)*delta_arg.stride[1])
#define RATES_DTYPE f32
#define RATES_OFFSET(a, b, c, d, e, f, g, h) (rates_arg.offset + (g)*rates_arg.stride[0] + (h)*rates_arg.stride[1])
#define TAKEN_DTYPE f32
#define TAKEN_OFFSET(a, b, c, d, e, f, g, h) (taken_arg.offset + (g)*taken_arg.stride[0] + (h)*taken_arg.stride[1])
#define GIVEN_DTYPE f32
#define GIVEN_OFFSET(a, b, c, d, e, f, g, h) (given_arg.offset + (g)*given_arg.stride[0] + (h)*given_arg.stride[1])
#define DST_DTYPE f32
#define DST_OFFSET(a, b, c, d, e, f, g, h) (dst_arg.offset + (g)*dst_arg.stride[0] + (h)*dst_arg.stride[1])
#define DST_DIM(i) ((i) < 6 ? 1 : dst_arg.dim[((i) + 2) % 8])
#define DST_PADDED(i) DST_DIM(i)
#endif

__kernel void selective_scan(TENSOR_IN(SRC, src), TENSOR_IN(DELTA, delta), TENSOR_IN(RATES, rates), TENSOR_IN(TAKEN, taken),
                             TENSOR_IN(GIVEN, given), TENSOR_OUT(DST, dst), const idx_t channels) {
    const idx_t channel = (idx_t)get_global_id(0);
    if (channel >= channels) return;
    ROW_DECLARE(i)
    ROW_INDICES(DST, i, channel)
    const idx_t n = i[5], d = i[6];
    const int inside = n < DST_DIM(5) && d < DST_DIM(6);
    float h[STATES], rate[STATES];
    for (int s = 0; s < STATES; ++s) {
        h[s] = 0.0f;
        rate[s] = inside ? LOAD(RATES, rates, RATES_OFFSET(0, 0, 0, 0, 0, 0, d, s)) : 0.0f;
    }
    for (idx_t t = 0; t < DST_PADDED(7); ++t) {
        float y = 0.0f;
        if (inside && t < DST_DIM(7)) {
            const float delta_t = LOAD(DELTA, delta, DELTA_OFFSET(0, 0, 0, 0, 0, n, d, t));
            const float value = delta_t * LOAD(SRC, src, SRC_OFFSET(0, 0, 0, 0, 0, n, d, t));
            for (int s = 0; s < STATES; ++s) {
                const float in = value * LOAD(TAKEN, taken, TAKEN_OFFSET(0, 0, 0, 0, 0, n, t, s));
                h[s] = fma(exp(delta_t * rate[s]), h[s], in);
                y = fma(h[s], LOAD(GIVEN, given, GIVEN_OFFSET(0, 0, 0, 0, 0, n, t, s)), y);
            }
        }
        i[7] = t;
        STORE(DST, dst, ROW_AT(DST, i), y);
    }
}
