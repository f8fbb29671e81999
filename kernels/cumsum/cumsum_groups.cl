// Running sums or products by work-groups, for GPUs: along any one dimension of a dense tensor without padding,
// rows in one part.
//
//   dst[e] = src[0] + src[1] + ... + src[e]      along the row
// or, with JOINED_BY, src[0] * src[1] * ... * src[e]; below a product is a sum, too.
//
// Tensors: SRC and DST, addressed alike by common/row_groups.clh, which says what a work-item takes.
// Runs, whole ones and pieces in steps: work-items add up their vectors; the sums of all vectors of a row go through
// local memory, in the order of the row, where each work-item adds up KEPT neighbours, and the sums of those are added
// up by doubling distances.
// ACROSS: a work-item holds KEPT neighbouring steps, and only its sum goes through local memory.
#include "common/row_groups.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#endif

#ifndef JOINED_BY
#define JOINED_BY JOIN_SUM  // JOIN_SUM, JOIN_PRODUCT
#endif
#define JOIN_SUM 0
#define JOIN_PRODUCT 1
#if JOINED_BY == JOIN_PRODUCT
#define NOTHING 1.0f
#define JOINED *
#define JOIN_TO *=
#else
#define NOTHING 0.0f
#define JOINED +
#define JOIN_TO +=
#endif

// Joins v of each work-item of a row, in order, to `before`: the sum of those before it.  `sums` has GROUP_ITEMS
// stats, and keeps the sums up to each.
#define SUM_OF_LANES_BEFORE(sums, v)                                            \
    sums[l_] = v;                                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                               \
    for (int d_ = 1; d_ < LANES; d_ *= 2) {                                     \
        stat other_ = (stat)(NOTHING);                                          \
        if (LANE_OF_ROW >= d_) other_ = sums[LANE_ITEM(LANE_OF_ROW - d_, slot_)]; \
        barrier(CLK_LOCAL_MEM_FENCE);                                           \
        sums[l_] JOIN_TO other_;                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                           \
    }

#if ACROSS
#define STEP(k) (lane_ * KEPT + (k))
#define HAS(k) (live_ && STEP(k) < count_)
#define AT(k) (base_ + (idx_t)STEP(k) * GROUP_STRIDE)
#else
#define SPREAD(q) ((q) + (q) / 32)  // so that neighbours and those KEPT apart share few banks
#define ROW_SPREAD SPREAD(KEPT * LANES + 32)
#if VECTOR == 1
#define SUM_WITHIN(v)
#define LAST_OF(v) (v)
#else
#define SUM_WITHIN_4(v) v.s1 JOIN_TO v.s0, v.s2 JOIN_TO v.s1, v.s3 JOIN_TO v.s2
#if VECTOR == 4
#define SUM_WITHIN(v) SUM_WITHIN_4(v);
#define LAST_OF(v) (v).s3
#else
#define SUM_WITHIN(v) SUM_WITHIN_4(v), v.s4 JOIN_TO v.s3, v.s5 JOIN_TO v.s4, v.s6 JOIN_TO v.s5, v.s7 JOIN_TO v.s6;
#define LAST_OF(v) (v).s7
#endif
#endif
#endif

GROUP_KERNEL void cumsum_groups(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                                const idx_t rows) {
    __local stat lanes[GROUP_ITEMS];
#if !ACROSS
    __local float vectors[SLOTS * ROW_SPREAD];
#endif
    GROUP_BEGIN((idx_t)get_group_id(0))
#if ACROSS
    vec x[KEPT];
    EACH_KEPT(k) {
        x[k] = LOAD_PIECE(SRC, src, base_ + (idx_t)min(STEP(k), count_ - 1) * GROUP_STRIDE);
        if (STEP(k) >= count_) x[k] = (vec)(NOTHING);
    }
    _Pragma("unroll") for (int k = 1; k < KEPT; ++k) x[k] JOIN_TO x[k - 1];
    SUM_OF_LANES_BEFORE(lanes, x[KEPT - 1])
    stat before = (stat)(NOTHING);
    if (lane_ > 0) before = lanes[l_ - SLOTS];
    EACH_KEPT(k) if (HAS(k)) STORE_PIECE(DST, dst, AT(k), (x[k] JOINED before));
#else
    GROUP_LOAD(x, NOTHING)
    const int me = LANE_OF_ROW;
    __local float* of_row = vectors + slot_ * ROW_SPREAD;
    EACH_KEPT(k) {
        SUM_WITHIN(x[k])
        of_row[SPREAD(k * LANES + me)] = LAST_OF(x[k]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = NOTHING;
    EACH_KEPT(k) {  // of my neighbours, what is before each
        const int q = SPREAD(me * KEPT + k);
        const float of_vector = of_row[q];
        of_row[q] = sum;
        sum JOIN_TO of_vector;
    }
    SUM_OF_LANES_BEFORE(lanes, sum)
    EACH_KEPT(k) if (GROUP_HAS(k)) {
        const int q = k * LANES + me, owner = q / KEPT;
        float before = of_row[SPREAD(q)];
        if (owner > 0) before JOIN_TO lanes[LANE_ITEM(owner - 1, slot_)];
        STORE_PIECE(DST, dst, GROUP_AT(k), (x[k] JOINED before));
    }
#endif
}
