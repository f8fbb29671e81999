// Reorder by tiles, where the source and the destination run along different axes:
//   dst[dst_offset + a + b * dst_stride_b + outer] = convert(src[src_offset + a * src_stride_a + b + outer])
//
// Axis a has stride 1 in dst, axis b in src; the other axes are `outer`.  A work-group moves a tile of TILE x TILE
// elements through local memory, so that both sides are read and written along their own axis.
// With CHECKED, one blocked dimension is not a multiple of its block: the elements beyond its limit are padding, zero
// if dst has them (CHECK_STORED), else left out.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef TILE
#define TILE 32  // elements along both axes: 16, 32
#endif
#ifndef ROWS
#define ROWS 8  // rows of a tile that a work-group moves at once: 4, 8
#endif
#ifndef OUTER
#define OUTER 1  // axes besides a and b: 1 to 12
#endif
#ifndef CHECKED
#define CHECKED 0
#endif
#ifndef CHECK_STORED
#define CHECK_STORED 1
#endif

typedef struct {
    idx_t count_a, count_b, src_stride_a, dst_stride_b, src_offset, dst_offset;
    idx_t size[OUTER], src_stride[OUTER], dst_stride[OUTER];  // of the outer axes, outermost first
    // A checked index is the sum of an outer part and those of a and b, in elements of the dimension.
    idx_t limit, check_a, check_b, check[OUTER];
} tiles_arg;

__kernel __attribute__((reqd_work_group_size(TILE * ROWS, 1, 1)))
void reorder_tiled(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                   const tiles_arg t) {
    __local COMPUTE_T(SRC) tile[TILE][TILE + 1];  // one more: rows begin in different banks
    const int x = (int)get_local_id(0) % TILE, y = (int)get_local_id(0) / TILE;
    const uidx_t tiles_a = (uidx_t)((t.count_a + TILE - 1) / TILE), tiles_b = (uidx_t)((t.count_b + TILE - 1) / TILE);
    uidx_t rest = (uidx_t)get_group_id(0);
    const idx_t b0 = (idx_t)(rest % tiles_b) * TILE;
    rest /= tiles_b;
    const idx_t a0 = (idx_t)(rest % tiles_a) * TILE;
    rest /= tiles_a;
    idx_t from = t.src_offset, to = t.dst_offset, checked = 0;
    for (int i = OUTER - 1; i >= 0; --i) {
        const idx_t k = (idx_t)(rest % (uidx_t)t.size[i]);
        rest /= (uidx_t)t.size[i];
        from += k * t.src_stride[i];
        to += k * t.dst_stride[i];
        checked += k * t.check[i];
    }
    for (int r = y; r < TILE; r += ROWS) {
        const idx_t a = a0 + r, b = b0 + x;
        int inside = a < t.count_a && b < t.count_b;
#if CHECKED
        inside = inside && checked + a * t.check_a + b * t.check_b < t.limit;
#endif
        tile[r][x] = inside ? LOAD(SRC, src, from + a * t.src_stride_a + b) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int r = y; r < TILE; r += ROWS) {
        const idx_t a = a0 + x, b = b0 + r;
        int exists = a < t.count_a && b < t.count_b;
#if CHECKED && !CHECK_STORED
        exists = exists && checked + a * t.check_a + b * t.check_b < t.limit;
#endif
        if (exists) STORE(DST, dst, to + b * t.dst_stride_b + a, tile[x][r]);
    }
}
