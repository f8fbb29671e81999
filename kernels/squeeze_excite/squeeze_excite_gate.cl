// The weight of each channel, from the sums of all channels: two fully connected layers of one image.
//
//   hidden[n, s] = activation(sum over c of wei1[s, c] * scale * (sum over p of sums[n, p, c]) + bias1[s])
//   gates[n, c] = gate(sum over s of wei2[c, s] * hidden[n, s] + bias2[c])
//
// Tensors: sums (n, parts, c) and gates (n, c), f32, dense; WEI1 (s, c) with c innermost, WEI2 (c, s) with c innermost
// too, BIAS1 (s), BIAS2 (c).  c is a multiple of 4.
//
// A work-group computes one image, so what counts is how few loads wait for each other: all of a layer's are on their
// way at once.  First layer: LANES work-items share the terms of a result, and take ROUNDS results.  Second layer: a
// work-item takes four channels, and where there are more work-items than that, each takes some of the terms.  Sums are
// f32 and added in a fixed order.  Group id: 0 n.  Gates begin at gates_at of their buffer, a multiple of 4.
#include "common/tensor.clh"
#include "common/activation.clh"

#define GATE_F32_DTYPE f32
#ifndef WEI1_DTYPE  // on its own: f32
#define WEI1_DTYPE f32
#define BIAS1_DTYPE f32
#define WEI2_DTYPE f32
#define BIAS2_DTYPE f32
#endif
#ifndef CHANNELS
#define CHANNELS 64  // a multiple of 4
#endif
#ifndef SQUEEZED
#define SQUEEZED 16  // results of the first layer
#endif
#ifndef ITEMS
#define ITEMS 512  // work-items of a group: 64, 128, 256, 512, 1024
#endif
#ifndef LANES
#define LANES 16  // work-items for a result of the first layer: 4, 8, 16, 32
#endif
#ifndef HIDDEN
#define HIDDEN UNARY_relu  // of the first layer
#endif
#ifndef GATE
#define GATE UNARY_sigmoid  // of the second layer
#endif

#define QUADS (CHANNELS / 4)
#define GROUPS (ITEMS / LANES)  // results of the first layer at a time
#define ROUNDS ((SQUEEZED + GROUPS - 1) / GROUPS)
#define ACROSS (QUADS < ITEMS ? QUADS : ITEMS)
#define SHARES (ITEMS / ACROSS)  // of the terms of the second layer

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void squeeze_excite_gate(__global const float* restrict sums, __global const STORAGE_T(WEI1)* restrict wei1,
                         __global const STORAGE_T(BIAS1)* restrict bias1,
                         __global const STORAGE_T(WEI2)* restrict wei2,
                         __global const STORAGE_T(BIAS2)* restrict bias2, __global float* restrict gates,
                         const idx_t gates_at, const int parts, const float scale) {
    __local float4 mean[QUADS];
    __local float hidden[SQUEEZED];
    __local float lanes[SQUEEZED][LANES + 1];  // one more: rows begin in different banks
    __local float4 shares[SHARES][ACROSS];
    const int item = (int)get_local_id(0), n = (int)get_group_id(0);
    for (int q = item; q < QUADS; q += ITEMS) {
        float4 sum = (float4)(0.0f);
        _Pragma("unroll 8") for (int p = 0; p < parts; ++p)
            sum += LOAD_QUAD(GATE_F32, sums, ((idx_t)n * parts + p) * CHANNELS + q * 4);
        mean[q] = sum * scale;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int group = item / LANES, lane = item % LANES;
    _Pragma("unroll 4") for (int round = 0; round < ROUNDS; ++round) {
        const int s = round * GROUPS + group;
        if (s >= SQUEEZED) continue;
        float4 sum = (float4)(0.0f);
        _Pragma("unroll 16") for (int q = lane; q < QUADS; q += LANES)
            sum = fma(LOAD_QUAD(WEI1, wei1, s * CHANNELS + q * 4), mean[q], sum);
        lanes[s][lane] = (sum.s0 + sum.s1) + (sum.s2 + sum.s3);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = item; s < SQUEEZED; s += ITEMS) {
        float four[4] = {LOAD(BIAS1, bias1, s), 0.0f, 0.0f, 0.0f};
        _Pragma("unroll") for (int l = 0; l < LANES; ++l) four[l % 4] += lanes[s][l];
        const float total = (four[0] + four[1]) + (four[2] + four[3]);
        hidden[s] = HIDDEN(float, total, 0.0f, 0.0f);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int share = item / ACROSS, column = item % ACROSS;
    for (int first = 0; first < QUADS; first += ACROSS) {
        const int q = first + column;
        float4 sum = (float4)(0.0f);
        if (q < QUADS && share < SHARES)
            _Pragma("unroll 16") for (int s = share; s < SQUEEZED; s += SHARES)
                sum = fma(LOAD_QUAD(WEI2, wei2, s * CHANNELS + q * 4), (float4)(hidden[s]), sum);
        if (share < SHARES) shares[share][column] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (share == 0 && q < QUADS) {
            float4 total = LOAD_QUAD(BIAS2, bias2, q * 4);
            _Pragma("unroll 8") for (int k = 0; k < SHARES; ++k) total += shares[k][column];
            STORE_QUAD(GATE_F32, gates, gates_at + (idx_t)n * CHANNELS + q * 4, GATE(float4, total, 0.0f, 0.0f));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
