// Maximum or mean of each plane, channels first: the work-items of a line share a plane.
//
//   dst[p] = max over q of src[p, q], a NaN wins; or scale * (sum over q)
//
// Tensors: SRC (planes, positions) and DST (planes), dense.  PIECE divides positions.
//
// LANES work-items share a plane, every LANES-th piece each, and their results are joined in a fixed order; a
// work-group takes PLANES planes.  Work-item ids: 0 lanes, 1 planes.
#include "common/halving.clh"
#include "common/pieces.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef POOL_MAX
#define POOL_MAX 0  // 1: maximum, 0: mean
#endif
#ifndef LANES
#define LANES 32  // work-items for a plane: 8, 16, 32, 64, 128
#endif
#ifndef PLANES
#define PLANES 4  // of a work-group: 128 / LANES
#endif
#if POOL_MAX
#define NOTHING (-INFINITY)
#define JOIN(value, x) ((x) > (value) || (x) != (x) ? (x) : (value))  // a NaN replaces whatever was there
#else
#define NOTHING 0.0f
#define JOIN(value, x) ((value) + (x))
#endif

__kernel __attribute__((reqd_work_group_size(LANES, PLANES, 1)))
void global_pool_planes(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                        const int planes, const int pieces, const float scale) {
    __local float joined[PLANES][LANES];
    const int lane = (int)get_local_id(0), line = (int)get_local_id(1);
    const int plane = (int)get_group_id(0) * PLANES + line;
    float sums[PIECE];
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) sums[k] = NOTHING;
    if (plane < planes)
        _Pragma("unroll 4") for (int p = lane; p < pieces; p += LANES) {
            float x[PIECE];
            PIECE_LOAD(SRC, x, src, (plane * pieces + p) * PIECE)
            _Pragma("unroll") for (int k = 0; k < PIECE; ++k) sums[k] = JOIN(sums[k], x[k]);
        }
    float value = sums[0];
    _Pragma("unroll") for (int k = 1; k < PIECE; ++k) value = JOIN(value, sums[k]);
    JOIN_BY_HALVING(float, JOIN, LANES, lane, joined[line] + lane, 1, value)
    if (lane == 0 && plane < planes) STORE(DST, dst, plane, value * scale);
}
