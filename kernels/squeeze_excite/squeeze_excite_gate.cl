// The weight of each channel, from the sums of all channels: two fully connected layers of one image.
//
//   hidden[n, s] = activation(sum over c of wei1[s, c] * scale * (sum over p of sums[n, p, c]) + bias1[s])
//   gates[n, c] = gate(sum over s of wei2[c, s] * hidden[n, s] + bias2[c])
//
// Tensors: sums (n, parts, c) and gates (n, c), f32, dense; WEI1, BIAS1 (s), WEI2, BIAS2 (c) as layers.clh has them.
// A work-group computes one image.  Group id: 0 n.  Gates begin at gates_at of their buffer, a multiple of 4.
#include "squeeze_excite/layers.clh"

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void squeeze_excite_gate(__global const float* restrict sums, __global const STORAGE_T(WEI1)* restrict wei1,
                         __global const STORAGE_T(BIAS1)* restrict bias1,
                         __global const STORAGE_T(WEI2)* restrict wei2,
                         __global const STORAGE_T(BIAS2)* restrict bias2, __global float* restrict gates,
                         const idx_t gates_at, const int parts, const float scale) {
    __local float4 mean[QUADS];
    __local float hidden[SQUEEZED];
    LAYERS_BEGIN
    const idx_t n = (idx_t)get_group_id(0);
    for (int q = item; q < QUADS; q += ITEMS) {
        float4 sum = (float4)(0.0f);
        _Pragma("unroll 8") for (int p = 0; p < parts; ++p)
            sum += LOAD_QUAD(GATE_F32, sums, (n * parts + p) * CHANNELS + q * 4);
        mean[q] = sum * scale;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    SUM_ROWS(WEI1, wei1, mean)
    for (int s = item; s < SQUEEZED; s += ITEMS) {
        ROW_SUM(total, s, LOAD(BIAS1, bias1, s))
        hidden[s] = HIDDEN(float, total, 0.0f, 0.0f);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    SUM_COLUMNS(WEI2, wei2, hidden, q, total, LOAD_QUAD(BIAS2, bias2, q * 4),
                STORE_QUAD(GATE_F32, gates, gates_at + n * CHANNELS + q * 4, GATE(float4, total, 0.0f, 0.0f));)
}
