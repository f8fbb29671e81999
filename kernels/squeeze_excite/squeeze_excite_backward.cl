// The gradients of squeeze_excite, in four launches.
//
// squeeze_excite_backward_sums: of each channel of an image, in parts of its positions
//   sums[n, p, 0, c] = sum of src, sums[n, p, 1, c] = sum of src * grad
// squeeze_excite_backward: both layers again, and what their arguments are derived by, a work-group an image:
//   before1 = wei1 * means + bias1, hidden = activation(before1), before2 = wei2 * hidden + bias2
//   by_gate[n, c] = gate'(before2) * (sum of src * grad), by_hidden[n, s] = activation'(before1) * (wei2^T * by_gate),
//   by_mean[n, c] = scale * (wei1^T * by_hidden)
// squeeze_excite_backward_weights: sums over images
//   dwei1 = by_hidden * means^T, dbias1 = by_hidden, dwei2 = by_gate * hidden^T, dbias2 = by_gate
// squeeze_excite_scale (squeeze_excite_scale.cl): dst[n, p, c] = grad[n, p, c] * gate(before2)[n, c] + by_mean[n, c]
//
// Tensors: SRC and GRAD (n, positions, c), dense, c a multiple of 4; WEI1, BIAS1, WEI2, BIAS2 as layers.clh has
// them; DWEI1 (s, c) and DWEI2 (c, s), dense, DBIAS1 (s), DBIAS2 (c).  The workspace, f32: sums (n, parts, 2, c), and
// from `at` on gates, by_mean, means, by_gate, (n, c) each, then hidden and by_hidden, (n, s).
#include "common/halving.clh"
#include "squeeze_excite/layers.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define GRAD_DTYPE f32
#define DWEI1_DTYPE f32
#define DBIAS1_DTYPE f32
#define DWEI2_DTYPE f32
#define DBIAS2_DTYPE f32
#endif
#ifndef QUADS_OF_GROUP
#define QUADS_OF_GROUP 8  // of channels a work-group of the sums: 1, 2, 4, 8, 16
#endif
#ifndef LANES_OF_QUAD
#define LANES_OF_QUAD 16  // work-items for a quad there: 4, 8, 16, 32
#endif
#ifndef HIDDEN_SLOPE_VALUE  // of the functions' arguments x0 and the gradient x1, behind the statements ..._TEXT
#define HIDDEN_SLOPE_TEXT
#define HIDDEN_SLOPE_VALUE (x0 > 0.0f ? x1 : 0.0f)
#define GATE_SLOPE_TEXT const float t = 1.0f / (1.0f + exp(-x0));
#define GATE_SLOPE_VALUE (x1 * t * (1.0f - t))
#endif

static inline float hidden_slope(const float x0, const float x1) {
    HIDDEN_SLOPE_TEXT
    return HIDDEN_SLOPE_VALUE;
}
static inline float gate_slope(const float x0, const float x1) {
    GATE_SLOPE_TEXT
    return GATE_SLOPE_VALUE;
}
static inline float4 gate_slopes(const float4 x, const float4 by) {
    return (float4)(gate_slope(x.s0, by.s0), gate_slope(x.s1, by.s1), gate_slope(x.s2, by.s2), gate_slope(x.s3, by.s3));
}

// Where the tensors behind the sums begin, for `batch` images.
#define GATES_AT(batch) (at)
#define BY_MEAN_AT(batch) (at + (batch) * CHANNELS)
#define MEANS_AT(batch) (at + (batch) * CHANNELS * 2)
#define BY_GATE_AT(batch) (at + (batch) * CHANNELS * 3)
#define HIDDEN_AT(batch) (at + (batch) * CHANNELS * 4)
#define BY_HIDDEN_AT(batch) (at + (batch) * (CHANNELS * 4 + SQUEEZED))

// Group ids: 0 channels, 1 parts, 2 n.
__kernel __attribute__((reqd_work_group_size(QUADS_OF_GROUP, LANES_OF_QUAD, 1)))
void squeeze_excite_backward_sums(__global const STORAGE_T(SRC)* restrict src,
                                  __global const STORAGE_T(GRAD)* restrict grad, __global float* restrict sums,
                                  const int positions, const int positions_of_part) {
    __local float4 of_src[LANES_OF_QUAD][QUADS_OF_GROUP], of_product[LANES_OF_QUAD][QUADS_OF_GROUP];
    const int c = (int)get_global_id(0) * 4, n = (int)get_group_id(2), part = (int)get_group_id(1);
    const int quad = (int)get_local_id(0), lane = (int)get_local_id(1);
    const int begin = part * positions_of_part, end = min(begin + positions_of_part, positions);
    const int base = n * positions * CHANNELS + c;
    float4 sum = (float4)(0.0f), product = (float4)(0.0f);
    if (c < CHANNELS)
        _Pragma("unroll 4") for (int p = begin + lane; p < end; p += LANES_OF_QUAD) {
            const float4 x = LOAD_QUAD(SRC, src, base + p * CHANNELS);
            sum += x;
            product = fma(x, LOAD_QUAD(GRAD, grad, base + p * CHANNELS), product);
        }
    SUMS_BY_HALVING(LANES_OF_QUAD, lane, of_src[lane] + quad, of_product[lane] + quad, QUADS_OF_GROUP, sum, product)
    if (lane > 0 || c >= CHANNELS) return;
    const int to = (n * (int)get_num_groups(1) + part) * 2 * CHANNELS + c;
    STORE_QUAD(GATE_F32, sums, to, sum);
    STORE_QUAD(GATE_F32, sums, to + CHANNELS, product);
}

// Group id: 0 n.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void squeeze_excite_backward(__global float* work, __global const STORAGE_T(WEI1)* restrict wei1,
                             __global const STORAGE_T(BIAS1)* restrict bias1,
                             __global const STORAGE_T(WEI2)* restrict wei2,
                             __global const STORAGE_T(BIAS2)* restrict bias2, const int at, const int parts,
                             const float scale) {
    __local float4 mean[QUADS], by_gate[QUADS];
    __local float hidden[SQUEEZED], before[SQUEEZED];
    LAYERS_BEGIN
    const int n = (int)get_group_id(0), batch = (int)get_num_groups(0);
    for (int q = item; q < QUADS; q += ITEMS) {
        float4 sum = (float4)(0.0f), product = (float4)(0.0f);
        _Pragma("unroll 4") for (int p = 0; p < parts; ++p) {
            const int from = (n * parts + p) * 2 * CHANNELS + q * 4;
            sum += LOAD_QUAD(GATE_F32, work, from);
            product += LOAD_QUAD(GATE_F32, work, from + CHANNELS);
        }
        mean[q] = sum * scale;
        by_gate[q] = product;
        STORE_QUAD(GATE_F32, work, MEANS_AT(batch) + n * CHANNELS + q * 4, mean[q]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    SUM_ROWS(WEI1, wei1, mean)
    for (int s = item; s < SQUEEZED; s += ITEMS) {
        ROW_SUM(total, s, LOAD(BIAS1, bias1, s))
        before[s] = total;
        hidden[s] = HIDDEN(float, total, 0.0f, 0.0f);
        work[HIDDEN_AT(batch) + n * SQUEEZED + s] = hidden[s];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    SUM_COLUMNS(WEI2, wei2, hidden, q, total, LOAD_QUAD(BIAS2, bias2, q * 4),
                STORE_QUAD(GATE_F32, work, GATES_AT(batch) + n * CHANNELS + q * 4, GATE(float4, total, 0.0f, 0.0f));
                by_gate[q] = gate_slopes(total, by_gate[q]);
                STORE_QUAD(GATE_F32, work, BY_GATE_AT(batch) + n * CHANNELS + q * 4, by_gate[q]);)
    SUM_ROWS(WEI2, wei2, by_gate)
    for (int s = item; s < SQUEEZED; s += ITEMS) {
        ROW_SUM(total, s, 0.0f)
        hidden[s] = hidden_slope(before[s], total);
        work[BY_HIDDEN_AT(batch) + n * SQUEEZED + s] = hidden[s];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    SUM_COLUMNS(WEI1, wei1, hidden, q, total, (float4)(0.0f),
                STORE_QUAD(GATE_F32, work, BY_MEAN_AT(batch) + n * CHANNELS + q * 4, total * scale);)
}

// Ids: 0 quads of channels, 1 s, one more for dbias2.
__kernel void squeeze_excite_backward_weights(__global const float* restrict work,
                                              __global STORAGE_T(DWEI1)* restrict dwei1,
                                              __global STORAGE_T(DBIAS1)* restrict dbias1,
                                              __global STORAGE_T(DWEI2)* restrict dwei2,
                                              __global STORAGE_T(DBIAS2)* restrict dbias2, const int at,
                                              const int batch) {
    const int q = (int)get_global_id(0), s = (int)get_global_id(1), c = q * 4;
    if (q >= QUADS || s > SQUEEZED) return;
    float4 one = (float4)(0.0f), two = (float4)(0.0f);
    float bias = 0.0f;
    if (s == SQUEEZED) {
        for (int n = 0; n < batch; ++n) two += LOAD_QUAD(GATE_F32, work, BY_GATE_AT(batch) + n * CHANNELS + c);
        STORE_QUAD(DBIAS2, dbias2, c, two);
        return;
    }
    _Pragma("unroll 4") for (int n = 0; n < batch; ++n) {
        const float by_hidden = work[BY_HIDDEN_AT(batch) + n * SQUEEZED + s];
        const float hidden = work[HIDDEN_AT(batch) + n * SQUEEZED + s];
        one = fma((float4)(by_hidden), LOAD_QUAD(GATE_F32, work, MEANS_AT(batch) + n * CHANNELS + c), one);
        two = fma((float4)(hidden), LOAD_QUAD(GATE_F32, work, BY_GATE_AT(batch) + n * CHANNELS + c), two);
        bias += by_hidden;
    }
    STORE_QUAD(DWEI1, dwei1, s * CHANNELS + c, one);
    STORE(DWEI2, dwei2, c * SQUEEZED + s, two.s0);
    STORE(DWEI2, dwei2, (c + 1) * SQUEEZED + s, two.s1);
    STORE(DWEI2, dwei2, (c + 2) * SQUEEZED + s, two.s2);
    STORE(DWEI2, dwei2, (c + 3) * SQUEEZED + s, two.s3);
    if (q == 0) STORE(DBIAS1, dbias1, s, bias);
}
