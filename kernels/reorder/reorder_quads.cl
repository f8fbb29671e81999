// Reorder by tiles, as reorder_tiled.cl, but by four elements an access where a side permits, and by tiles as narrow as
// the narrower axis: the 16 channels of a block by many pixels (NCHW <-> nChw16c), 64 channels by 64 pixels.
//   dst[dst_offset + a + b * dst_stride_b + outer] = convert(src[src_offset + a * src_stride_a + b + outer])
//
// Axis a has stride 1 in dst, axis b in src; the other axes are `outer`.  A work-item has all its loads on their way
// before it puts the first into local memory.  There rows are the longer side of the tile, and row r is permuted by
// exclusive or with a multiple of the vector, so that accesses across rows meet in no bank (of 32, of 4 bytes).
// With LOAD_VECTOR 4, multiples of 4 are count_b, src_stride_a, src_offset, the strides of the outer axes in src;
// with STORE_VECTOR 4: count_a, dst_stride_b, dst_offset, the strides of the outer axes in dst.
// CHECKED and CHECK_STORED as in reorder_tiled.cl.  Along a checked axis vectors are loaded only where what is beyond
// the limit is left out (the source has its padding), and stored only where it is stored.
#include "common/tensor.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef TILE_A
#define TILE_A 16  // elements along a: 4, 8, 16, 32, 64, 128, 256
#endif
#ifndef TILE_B
#define TILE_B 128  // along b, the same; one of both at least 32
#endif
#ifndef ITEMS
#define ITEMS 128  // work-items of a group: 32, 64, 128, 256
#endif
#ifndef LOAD_VECTOR
#define LOAD_VECTOR 4  // elements of a load, along b: 1, 4
#endif
#ifndef STORE_VECTOR
#define STORE_VECTOR 4  // elements of a store, along a: 1, 4
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

// Units of a tile are unsigned: with signed ones PoCL 5.0 gives all work-items the last one's place in local memory.
#define LOADS (TILE_A * TILE_B / LOAD_VECTOR / ITEMS)
#define STORES (TILE_A * TILE_B / STORE_VECTOR / ITEMS)

#if TILE_B >= TILE_A
#define ROWS TILE_A
#define ALONG LOAD_VECTOR
#define ACROSS STORE_VECTOR
#define PLACE(a, b) ((a) * TILE_B + ((b) ^ PERMUTE(a)))
#else
#define ROWS TILE_B
#define ALONG STORE_VECTOR
#define ACROSS LOAD_VECTOR
#define PLACE(a, b) ((b) * TILE_A + ((a) ^ PERMUTE(b)))
#endif
// Neighbours in a vector across rows share a permutation; the next ones are as far apart as 32 banks allow.
#if ACROSS * 32 / ROWS > ALONG
#define SPREAD (ACROSS * 32 / ROWS)
#else
#define SPREAD ALONG
#endif
#define PERMUTE(row) ((row) / ACROSS * SPREAD % 32)

typedef struct {
    idx_t count_a, count_b, src_stride_a, dst_stride_b, src_offset, dst_offset;
    idx_t size[OUTER], src_stride[OUTER], dst_stride[OUTER];  // of the outer axes, outermost first
    // A checked index is the sum of an outer part and those of a and b, in elements of the dimension.
    idx_t limit, check_a, check_b, check[OUTER];
} tiles_arg;

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void reorder_quads(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                   const tiles_arg t) {
    __local float tile[TILE_A * TILE_B] __attribute__((aligned(16)));
    const int item = (int)get_local_id(0);
    const uidx_t tiles_a = (uidx_t)((t.count_a + TILE_A - 1) / TILE_A);
    const uidx_t tiles_b = (uidx_t)((t.count_b + TILE_B - 1) / TILE_B);
    uidx_t rest = (uidx_t)get_group_id(0);
    const idx_t b0 = (idx_t)(rest % tiles_b) * TILE_B;
    rest /= tiles_b;
    const idx_t a0 = (idx_t)(rest % tiles_a) * TILE_A;
    rest /= tiles_a;
    idx_t from = t.src_offset + a0 * t.src_stride_a + b0, to = t.dst_offset + b0 * t.dst_stride_b + a0;
    idx_t left = t.limit - a0 * t.check_a - b0 * t.check_b;  // of the checked dimension, from this tile on
    for (int i = OUTER - 1; i >= 0; --i) {
        const idx_t k = (idx_t)(rest % (uidx_t)t.size[i]);
        rest /= (uidx_t)t.size[i];
        from += k * t.src_stride[i];
        to += k * t.dst_stride[i];
        left -= k * t.check[i];
    }
    const int end_a = (int)min(t.count_a - a0, (idx_t)TILE_A), end_b = (int)min(t.count_b - b0, (idx_t)TILE_B);

#if LOAD_VECTOR == 4
    float4 held[LOADS];
#else
    float held[LOADS];
#endif
    _Pragma("unroll") for (int i = 0; i < LOADS; ++i) {
        const uint unit = (uint)(i * ITEMS + item);
        const int a = (int)(unit / (TILE_B / LOAD_VECTOR)), b = (int)(unit % (TILE_B / LOAD_VECTOR)) * LOAD_VECTOR;
        int inside = a < end_a && b < end_b;
#if CHECKED
        inside = inside && a * t.check_a + b * t.check_b < left;
#endif
        held[i] = 0;
#if LOAD_VECTOR == 4
        if (inside) held[i] = LOAD_QUAD(SRC, src, from + a * t.src_stride_a + b);
#else
        if (inside) held[i] = LOAD(SRC, src, from + a * t.src_stride_a + b);
#endif
    }
    _Pragma("unroll") for (int i = 0; i < LOADS; ++i) {
        const uint unit = (uint)(i * ITEMS + item);
        const int a = (int)(unit / (TILE_B / LOAD_VECTOR)), b = (int)(unit % (TILE_B / LOAD_VECTOR)) * LOAD_VECTOR;
#if LOAD_VECTOR == 1
        tile[PLACE(a, b)] = held[i];
#elif TILE_B >= TILE_A
        *(__local float4*)(tile + PLACE(a, b)) = held[i];
#else
        tile[PLACE(a, b)] = held[i].x;
        tile[PLACE(a, b + 1)] = held[i].y;
        tile[PLACE(a, b + 2)] = held[i].z;
        tile[PLACE(a, b + 3)] = held[i].w;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    _Pragma("unroll") for (int i = 0; i < STORES; ++i) {
        const uint unit = (uint)(i * ITEMS + item);
        const int a = (int)(unit % (TILE_A / STORE_VECTOR)) * STORE_VECTOR, b = (int)(unit / (TILE_A / STORE_VECTOR));
        int exists = a < end_a && b < end_b;
#if CHECKED && !CHECK_STORED
        exists = exists && a * t.check_a + b * t.check_b < left;
#endif
        if (!exists) continue;
        const idx_t place = to + b * t.dst_stride_b + a;
#if STORE_VECTOR == 1
        STORE(DST, dst, place, tile[PLACE(a, b)]);
#elif TILE_B < TILE_A
        STORE_QUAD(DST, dst, place, *(__local const float4*)(tile + PLACE(a, b)));
#else
        STORE_QUAD(DST, dst, place, (float4)(tile[PLACE(a, b)], tile[PLACE(a + 1, b)], tile[PLACE(a + 2, b)],
                                             tile[PLACE(a + 3, b)]));
#endif
    }
}
