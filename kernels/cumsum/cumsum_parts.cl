// Running sums, products, or logarithms of sums of exponentials, along one dimension, any layout, for GPUs: a row by
// one or more work-groups.
//
//   dst[e] = src[0] + src[1] + ... + src[e]      along the row, or joined otherwise (cumsum/joined.clh)
//
// A row has `parts` parts of `length` elements, a multiple of TILE, and `totals` a sum_t for each part of each row.
// The order in which elements are joined follows from the sizes, so that results repeat.
//   cumsum_totals   the total of each part
//   cumsum_parts    the results of a part, after the totals of the parts before it; of one part there are none
// A work-group goes through a part in tiles: each of LANES work-items takes KEPT neighbours of a tile.  Padding of the
// row is written (as zero); rows in the padding of other dimensions are zero.
#include "cumsum/joined.clh"

#ifndef LANES
#define LANES 64  // work-items, a power of two
#endif
#define KEPT 8
#define TILE (LANES * KEPT)

// Joins v of all work-items before this one; `sums` has LANES, the last one in the end the total of all.
static inline sum_t before_me(__local sum_t* sums, const sum_t v) {
    const int lane = (int)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);  // the last use of sums is over
    sums[lane] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int distance = 1; distance < LANES; distance *= 2) {
        sum_t other = NOTHING;
        if (lane >= distance) other = sums[lane - distance];
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[lane] = JOINED(other, sums[lane]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return lane > 0 ? sums[lane - 1] : (sum_t)NOTHING;
}

#define BEGIN_PART                                                                                        \
    __local sum_t sums[LANES];                                                                            \
    const int lane = (int)get_local_id(0);                                                                \
    const idx_t row = (idx_t)get_group_id(0) / parts, part = (idx_t)get_group_id(0) % parts;              \
    ROW_DECLARE(i)                                                                                        \
    ROW_INDICES(DST, i, row)                                                                              \
    int inside = 1;                                                                                       \
    for (int k = 0; k < 7; ++k) inside &= i[k] < ROW_DIM_OF(DST, k);                                      \
    const idx_t size = inside ? DST_DIM(7) : 0, padded = DST_PADDED(7), begin = part * length,            \
                end = min(begin + length, padded);

#define LOAD_TILE(x, tile)                                                                                \
    _Pragma("unroll") for (int k = 0; k < KEPT; ++k) {                                                    \
        i[7] = (tile) + lane * KEPT + k;                                                                  \
        x[k] = NOTHING;                                                                                   \
        if (i[7] < end && i[7] < size) x[k] = (sum_t)LOAD(SRC, src, ROW_AT(SRC, i));                      \
    }

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void cumsum_totals(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), __global sum_t* totals, const idx_t parts,
                   const idx_t length) {
    BEGIN_PART
    sum_t sum = NOTHING;
    // Work-items join what they have of all tiles; the total of a part is joined from theirs.
    for (idx_t tile = begin; tile < end; tile += TILE) {
        sum_t x[KEPT];
        LOAD_TILE(x, tile)
        _Pragma("unroll") for (int k = 0; k < KEPT; ++k) sum = JOINED(sum, x[k]);
    }
    before_me(sums, sum);
    if (lane == 0) totals[get_group_id(0)] = sums[LANES - 1];
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void cumsum_parts(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), __global const sum_t* totals, const idx_t parts,
                  const idx_t length) {
    BEGIN_PART
    sum_t before = NOTHING;
    if (part > 0) {
        for (idx_t other = lane; other < part; other += LANES) before = JOINED(before, totals[row * parts + other]);
        before_me(sums, before);
        before = sums[LANES - 1];
    }
    for (idx_t tile = begin; tile < end; tile += TILE) {
        sum_t x[KEPT];
        LOAD_TILE(x, tile)
        _Pragma("unroll") for (int k = 1; k < KEPT; ++k) x[k] = JOINED(x[k - 1], x[k]);
        const sum_t mine = JOINED(before, before_me(sums, x[KEPT - 1]));
        _Pragma("unroll") for (int k = 0; k < KEPT; ++k) {
            i[7] = tile + lane * KEPT + k;
            if (i[7] < end) STORE_SUM(DST, dst, ROW_AT(DST, i), i[7] < size ? JOINED(mine, x[k]) : 0);
        }
        before = JOINED(before, sums[LANES - 1]);
    }
}
