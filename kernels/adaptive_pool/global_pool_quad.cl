// Maximum or mean of each channel over all positions, channels innermost, four channels a work-item.
//
//   dst[n, part, c] = max over p of src[n, p, c], a NaN wins; or scale * (sum over p)      p the positions of a part
//
// Tensors: SRC (n, positions, c) and DST (n, parts, c), dense.  c is a multiple of 4.  Where there are several parts,
// DST is a workspace of f32 and the kernel runs once more, on the parts as positions.
//
// A work-group takes QUADS quads of channels and one part; LANES work-items share the positions of a quad, every
// LANES-th each, and their results are joined in a fixed order.  Group ids: 0 channels, 1 parts, 2 n.
#include "common/halving.clh"
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef POOL_MAX
#define POOL_MAX 0  // 1: maximum, 0: mean
#endif
#ifndef QUADS
#define QUADS 8  // of channels a work-group: 1, 2, 4, 8, 16
#endif
#ifndef LANES
#define LANES 16  // work-items for a quad: 4, 8, 16, 32
#endif
#if POOL_MAX
#define NOTHING (-INFINITY)
#define JOIN(value, x) select(value, x, (x > value) | (x != x))  // x != x: a NaN replaces whatever was there
#else
#define NOTHING 0.0f
#define JOIN(value, x) ((value) + (x))
#endif

__kernel __attribute__((reqd_work_group_size(QUADS, LANES, 1)))
void global_pool_quad(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                      const idx_t channels, const idx_t positions, const idx_t positions_of_part, const float scale) {
    __local float4 joined[LANES][QUADS];
    const idx_t c = (idx_t)get_global_id(0) * 4, n = (idx_t)get_group_id(2), part = (idx_t)get_group_id(1);
    const int quad = (int)get_local_id(0), lane = (int)get_local_id(1);
    const idx_t begin = part * positions_of_part, end = min(begin + positions_of_part, positions);
    const idx_t base = n * positions * channels + c;
    float4 value = (float4)(NOTHING);
    if (c < channels)
        _Pragma("unroll 8") for (idx_t p = begin + lane; p < end; p += LANES) {
            const float4 x = LOAD_QUAD(SRC, src, base + p * channels);
            value = JOIN(value, x);
        }
    JOIN_BY_HALVING(float4, JOIN, LANES, lane, joined[lane] + quad, QUADS, value)
    if (lane == 0 && c < channels)
        STORE_QUAD(DST, dst, (n * (idx_t)get_num_groups(1) + part) * channels + c, value * scale);
}
