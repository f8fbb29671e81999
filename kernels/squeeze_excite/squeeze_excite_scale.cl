// Channels times a weight for each image, channels innermost, four channels a work-item.
//
//   dst[n, p, c] = src[n, p, c] * gates[n, c]            with SHIFTED + shifts[n, c]
//
// Tensors: SRC and DST (n, positions, c) and gates (n, c), f32, all dense; gates begin at gates_at of
// their buffer, a multiple of 4, and shifts lie behind them.  c is a multiple of 4.  DST may be SRC.
//
// A work-item computes ROWS positions of four channels; neighbours have neighbouring channels.  Ids: 0 quads of
// channels, 1 positions, ROWS for each, 2 n.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef ROWS
#define ROWS 4  // positions a work-item: 1, 2, 4, 8
#endif
#ifndef SHIFTED
#define SHIFTED 0  // 1: with shifts
#endif
#define GATE_F32_DTYPE f32
#if SHIFTED
#define SCALED(x) fma(x, gate, shift)
#else
#define SCALED(x) ((x) * gate)
#endif

__kernel void squeeze_excite_scale(__global const STORAGE_T(SRC)* src, __global const float* restrict gates,
                                   __global STORAGE_T(DST)* dst, const idx_t gates_at, const idx_t channels,
                                   const idx_t positions) {
    const idx_t c = (idx_t)get_global_id(0) * 4, n = (idx_t)get_global_id(2);
    const idx_t step = (idx_t)get_local_size(1);  // between positions of a work-item, so that groups read side by side
    const idx_t first = (idx_t)get_group_id(1) * step * ROWS + (idx_t)get_local_id(1);
    if (c >= channels || first >= positions) return;
    const float4 gate = LOAD_QUAD(GATE_F32, gates, gates_at + n * channels + c);
#if SHIFTED
    const idx_t images = (idx_t)get_global_size(2);
    const float4 shift = LOAD_QUAD(GATE_F32, gates, gates_at + (images + n) * channels + c);
#endif
    float4 x[ROWS];
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
        if (first + r * step < positions) x[r] = LOAD_QUAD(SRC, src, (n * positions + first + r * step) * channels + c);
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
        if (first + r * step < positions)
            STORE_QUAD(DST, dst, (n * positions + first + r * step) * channels + c, SCALED(x[r]));
}
