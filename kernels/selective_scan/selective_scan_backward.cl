// The gradients of the selective scan, any layouts.
//
// With h[t, i] of selective_scan.cl, e[t, i] = exp(delta[n, d, t] * rates[d, i]) and, from the last step to the first,
//   m[t, i] = grad[n, d, t] * given[n, t, i] + e[t + 1, i] * m[t + 1, i]
// of each channel, and the sums of its parts over channels and over images:
//   dsrc[n, d, t]   = sum over i of m[t, i] * delta[n, d, t] * taken[n, t, i]
//   ddelta[n, d, t] = sum over i of m[t, i] * (rates[d, i] * e[t, i] * h[t - 1, i] + taken[n, t, i] * src[n, d, t])
//   drates[d, i]    = sum over n and t of m[t, i] * delta[n, d, t] * e[t, i] * h[t - 1, i]
//   dtaken[n, t, i] = sum over d of m[t, i] * delta[n, d, t] * src[n, d, t]
//   dgiven[n, t, i] = sum over d of grad[n, d, t] * h[t, i]
//
// Tensors, with eight dimensions (common/rows.clh): SRC, DELTA, GRAD, DSRC and DDELTA (.., n, d, t), RATES (.., d, i),
// TAKEN and GIVEN (.., n, t, i).  `parts`, in f32: those of dgiven and of dtaken, (n, t, i, d) each, and of drates,
// (n, i, d).
// selective_scan_backward: one work-item computes one channel of one image, all steps; padding of dsrc and ddelta is
// zero.
// selective_scan_sums: one work-item adds up `count` parts that lie `step` apart, in their order, for one element of DST,
// dense: that of line l and column c of `columns` begins with part first + l * line + c * across.
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
#define GRAD_DTYPE f32
#define GRAD_OFFSET(a, b, c, d, e, f, g, h) (grad_arg.offset + (g)*grad_arg.stride[0] + (h)*grad_arg.stride[1])
#define DSRC_DTYPE f32
#define DSRC_OFFSET(a, b, c, d, e, f, g, h) (dsrc_arg.offset + (g)*dsrc_arg.stride[0] + (h)*dsrc_arg.stride[1])
#define DSRC_DIM(i) ((i) < 6 ? 1 : dsrc_arg.dim[((i) + 2) % 8])
#define DSRC_PADDED(i) DSRC_DIM(i)
#define DDELTA_DTYPE f32
#define DDELTA_OFFSET(a, b, c, d, e, f, g, h) (ddelta_arg.offset + (g)*ddelta_arg.stride[0] + (h)*ddelta_arg.stride[1])
#endif

__kernel void selective_scan_backward(TENSOR_IN(SRC, src), TENSOR_IN(DELTA, delta), TENSOR_IN(RATES, rates),
                                      TENSOR_IN(TAKEN, taken), TENSOR_IN(GIVEN, given), TENSOR_IN(GRAD, grad),
                                      TENSOR_OUT(DSRC, dsrc), TENSOR_OUT(DDELTA, ddelta), __global float* parts,
                                      const idx_t channels) {
    const idx_t channel = (idx_t)get_global_id(0);
    if (channel >= channels) return;
    ROW_DECLARE(i)
    ROW_INDICES(DSRC, i, channel)
    const idx_t n = i[5], d = i[6], steps = DSRC_DIM(7);
    const int inside = n < DSRC_DIM(5) && d < DSRC_DIM(6);
    if (!inside) {
        for (i[7] = 0; i[7] < DSRC_PADDED(7); ++i[7]) {
            STORE(DSRC, dsrc, ROW_AT(DSRC, i), 0.0f);
            STORE(DDELTA, ddelta, ROW_AT(DDELTA, i), 0.0f);
        }
        return;
    }
    const size_t line = DSRC_DIM(6), all = (size_t)DSRC_DIM(5) * steps * STATES * line;
    __global float* of_given = parts + (size_t)n * steps * STATES * line + d;  // first the states themselves
    __global float* of_taken = of_given + all;
    __global float* of_rates = parts + 2 * all + (size_t)n * STATES * line + d;
    float h[STATES], rate[STATES], sum[STATES];
    for (int s = 0; s < STATES; ++s) {
        h[s] = 0.0f;
        sum[s] = 0.0f;
        rate[s] = LOAD(RATES, rates, RATES_OFFSET(0, 0, 0, 0, 0, 0, d, s));
    }
    for (idx_t t = 0; t < steps; ++t) {
        const float delta_t = LOAD(DELTA, delta, DELTA_OFFSET(0, 0, 0, 0, 0, n, d, t));
        const float value = delta_t * LOAD(SRC, src, SRC_OFFSET(0, 0, 0, 0, 0, n, d, t));
        for (int s = 0; s < STATES; ++s) {
            const float in = value * LOAD(TAKEN, taken, TAKEN_OFFSET(0, 0, 0, 0, 0, n, t, s));
            h[s] = fma(exp(delta_t * rate[s]), h[s], in);
            of_given[((size_t)t * STATES + s) * line] = h[s];
        }
    }
    for (int s = 0; s < STATES; ++s) h[s] = 0.0f;  // from here on: what comes from the next step
    for (i[7] = DSRC_PADDED(7) - 1; i[7] >= steps; --i[7]) {
        STORE(DSRC, dsrc, ROW_AT(DSRC, i), 0.0f);
        STORE(DDELTA, ddelta, ROW_AT(DDELTA, i), 0.0f);
    }
    for (idx_t t = steps - 1; t >= 0; --t) {
        const float delta_t = LOAD(DELTA, delta, DELTA_OFFSET(0, 0, 0, 0, 0, n, d, t));
        const float value = LOAD(SRC, src, SRC_OFFSET(0, 0, 0, 0, 0, n, d, t));
        const float grad_t = LOAD(GRAD, grad, GRAD_OFFSET(0, 0, 0, 0, 0, n, d, t));
        float by_value = 0.0f, by_delta = 0.0f;
        for (int s = 0; s < STATES; ++s) {
            const size_t at = ((size_t)t * STATES + s) * line;
            const float in = LOAD(TAKEN, taken, TAKEN_OFFSET(0, 0, 0, 0, 0, n, t, s));
            const float state = of_given[at], before = t > 0 ? of_given[at - STATES * line] : 0.0f;
            const float decay = exp(delta_t * rate[s]);
            const float m = fma(grad_t, LOAD(GIVEN, given, GIVEN_OFFSET(0, 0, 0, 0, 0, n, t, s)), h[s]);
            const float kept = m * decay * before;
            by_value = fma(m, in, by_value);
            by_delta += fma(kept, rate[s], m * in * value);
            sum[s] = fma(kept, delta_t, sum[s]);
            h[s] = m * decay;
            of_taken[at] = m * delta_t * value;
            of_given[at] = grad_t * state;
        }
        i[7] = t;
        STORE(DSRC, dsrc, ROW_AT(DSRC, i), by_value * delta_t);
        STORE(DDELTA, ddelta, ROW_AT(DDELTA, i), by_delta);
    }
    for (int s = 0; s < STATES; ++s) of_rates[s * line] = sum[s];
}

#ifndef DST_DTYPE
#define DST_DTYPE f32
#endif
__kernel void selective_scan_sums(__global const float* restrict parts, __global STORAGE_T(DST)* restrict dst,
                                  const ulong first, const uint count, const uint step, const uint columns,
                                  const uint line, const uint across, const uint sums) {
    const uint which = (uint)get_global_id(0);
    if (which >= sums) return;
    const uint l = which / columns, c = which - l * columns;
    __global const float* from = parts + first + (size_t)l * line + (size_t)c * across;
    float sum = 0.0f;
    for (uint k = 0; k < count; ++k) sum += from[(size_t)k * step];
    STORE(DST, dst, which, sum);
}
