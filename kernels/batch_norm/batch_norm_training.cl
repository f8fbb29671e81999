// Batch normalisation by the statistics of the batch, in one to three launches.
//
//   mean[c], variance[c] (biased) over images and positions of src[n, c, ...]
//   dst[n, c, ...] = post-ops((src[n, c, ...] - mean[c]) / sqrt(variance[c] + eps) * weight[c] + bias[c])
//
// batch_norm_training_parts: mean and squared distances from it of each part of each channel, stats[part][2][channel] behind the factors;
// a work-item takes distances from the mean of its first elements, and what work-items and parts know is joined by pairs
// (T. Chan et al., 1979), in one order.  batch_norm_training_join: those of all parts; writes the statistics and, for the
// last launch, factors[3][channel]: mean, weight / sqrt(variance + eps), bias.  batch_norm_training: dst.
// With few parts batch_norm_training_joined does both: each work-group joins all parts of its channels.  With one part
// batch_norm_training_whole does all: each work-group reads its channels twice, the second time from a cache.
//
// Tensors: SRC, DST and operands as DST (common/operands.clh), addressed by common/channel_parts.clh, which says what a
// work-item takes; WEIGHT, BIAS, MEAN and VAR (c).
#include "common/channel_parts.clh"
#include "common/halving.clh"
#include "common/operands.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define DST_DTYPE f32
#define WEIGHT_DTYPE f32
#define BIAS_DTYPE f32
#define MEAN_DTYPE f32
#define VAR_DTYPE f32
#endif
#ifndef NEAR
#define NEAR (LANES_Y > 1 ? 4 : 16)  // elements whose mean stands for that of all
#endif

// With the first eight bits alone: then what is taken from 16-bit numbers leaves their sums exact, where all bits would
// make every addition round the same way.
#if VECTOR == 1
#define COARSE(v) as_float(as_uint(v) & 0xffff0000u)
#elif VECTOR == 2
#define COARSE(v) as_float2(as_uint2(v) & 0xffff0000u)
#else
#define COARSE(v) as_float4(as_uint4(v) & 0xffff0000u)
#endif

// Joins what is known of b's elements to what is known of a's.
#define JOIN_MOMENTS(T, count_a, mean_a, squares_a, count_b, mean_b, squares_b)                       \
    {                                                                                                 \
        const float all_ = count_a + (count_b), share_ = all_ > 0.0f ? (count_b) / all_ : 0.0f;       \
        const T apart_ = (mean_b)-mean_a;                                                             \
        mean_a += apart_ * share_;                                                                    \
        squares_a += (squares_b) + apart_ * apart_ * (count_a * share_);                              \
        count_a = all_;                                                                               \
    }

// Joins what `lanes` work-items of each of `columns` columns know: count, mean and distance, of type T; column x's is
// in mean_of[x] and distance_of[x] then, and known where lane is 0.
#define JOIN_MOMENTS_OF_LANES(T, lanes, lane, columns, column)                                    \
    __local T mean_of[(lanes) * (columns)], distance_of[(lanes) * (columns)];                     \
    __local float count_of[lanes];                                                                \
    const int own_ = (lane) * (columns) + (column);                                               \
    LEAVE_MOMENTS(lane, column)                                                                   \
    HALVING(half_, lanes, lane,                                                                   \
            const int other_ = own_ + half_ * (columns);                                          \
            JOIN_MOMENTS(T, count, mean, distance, count_of[(lane) + half_], mean_of[other_],     \
                         distance_of[other_])                                                     \
            LEAVE_MOMENTS(lane, column))
#define LEAVE_MOMENTS(lane, column)                                                               \
    mean_of[own_] = mean;                                                                         \
    distance_of[own_] = distance;                                                                 \
    if ((column) == 0) count_of[lane] = count;
#if LANES_Y > 1
#define JOIN_LANES_Y JOIN_MOMENTS_OF_LANES(stat, LANES_Y, ly, LANES_X, lx)
#else
#define JOIN_LANES_Y
#endif

// What a work-item knows of its rows of a part: count, mean and squared distance from it of each channel.
#if WIDE || VECTOR == 1
#define MOMENTS_OF_STAT stat mean = means, distance = squares;
#else
#define MOMENTS_OF_STAT                                                    \
    float mean = SUM_OF_VEC(means) * (1.0f / VECTOR);                      \
    const vec away = means - mean;                                         \
    float distance = SUM_OF_VEC(squares) + count * SUM_OF_VEC((away * away)); \
    count *= VECTOR;
#endif
#define MOMENTS_OF_ROWS                                                                              \
    const int rows = LANE_ROWS, near = min(rows, NEAR);                                              \
    vec from = (vec)(0.0f), total = (vec)(0.0f), square = (vec)(0.0f);                               \
    for (int k = 0; k < near; ++k) from += LOAD_VEC(SRC, src, ROW_PLACE_OF(first_ + ly + k * LANES_Y)); \
    if (near > 0) from *= 1.0f / (float)near;                                                        \
    from = COARSE(from);                                                                             \
    EACH_ROW(at) {                                                                                   \
        const vec x = LOAD_VEC(SRC, src, at) - from;                                                 \
        total += x;                                                                                  \
        square += x * x;                                                                             \
    }                                                                                                \
    float count = (float)max(rows, 0);                                                               \
    const float scale_ = count > 0.0f ? 1.0f / count : 0.0f;                                         \
    const vec means = from + total * scale_, squares = square - total * (total * scale_);            \
    MOMENTS_OF_STAT                                                                                  \
    JOIN_LANES_Y

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void batch_norm_training_parts(__global const STORAGE_T(SRC)* restrict src, __global float* restrict stats,
                               const channel_walk walk) {
    const int part = (int)get_group_id(1);
    CHANNEL_BEGIN(part)
    MOMENTS_OF_ROWS
    if (ly > 0 || !live) return;
    const idx_t all = (idx_t)walk.blocks * walk.width;
    STORE_STATS(stats, STATS_PLACE(part, 0), mean);
    STORE_STATS(stats, STATS_PLACE(part, 1), distance);
}

__kernel __attribute__((reqd_work_group_size(JOIN_LANES, 1, 1)))
void batch_norm_training_join(__global const float* restrict stats, __global float* restrict factors,
                              __global const STORAGE_T(WEIGHT)* restrict weight,
                              __global const STORAGE_T(BIAS)* restrict bias, __global STORAGE_T(MEAN)* restrict mean_out,
                              __global STORAGE_T(VAR)* restrict var_out, const channel_walk walk, const float eps) {
    const int channel = (int)get_group_id(0), lane = (int)get_local_id(0);
    const idx_t all = (idx_t)walk.blocks * walk.width;
    float count = 0.0f, mean = 0.0f, distance = 0.0f;
    for (int part = lane; part < walk.parts; part += JOIN_LANES) {
        const float more = (float)CHANNEL_ROWS_OF(part) * (WIDE ? 1 : VECTOR);
        JOIN_MOMENTS(float, count, mean, distance, more, stats[STATS_PLACE(part, 0)],
                     stats[STATS_PLACE(part, 1)])
    }
#if JOIN_LANES > 1
    JOIN_MOMENTS_OF_LANES(float, JOIN_LANES, lane, 1, 0)
#endif
    if (lane > 0) return;
    const bool inside = channel < walk.channels;
    const float variance = distance / count;
    factors[channel] = inside ? mean : 0.0f;
    factors[all + channel] = inside ? LOAD(WEIGHT, weight, channel) / sqrt(variance + eps) : 0.0f;
    factors[2 * all + channel] = inside ? LOAD(BIAS, bias, channel) : 0.0f;
    if (!inside) return;
    STORE(MEAN, mean_out, channel, mean);
    STORE(VAR, var_out, channel, variance);
}

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void batch_norm_training(__global const STORAGE_T(SRC)* restrict src, __global STORAGE_T(DST)* restrict dst,
                         __global const float* restrict factors, const channel_walk walk OPERAND_PARAMETERS) {
    // From the last part on: what the first launch read last may still be in a cache.
    const int part = (int)(get_num_groups(1) - 1 - get_group_id(1));
    CHANNEL_BEGIN(part)
    if (!live) return;
    const idx_t all = (idx_t)walk.blocks * walk.width;
    const vec mean = OF_STAT(LOAD_STATS(factors, channel)), scale = OF_STAT(LOAD_STATS(factors, all + channel));
    const vec shift = OF_STAT(LOAD_STATS(factors, 2 * all + channel));
    EACH_ROW(at) {
        vec y = (LOAD_VEC(SRC, src, at) - mean) * scale + shift;
        FINISH(vec, y, LOAD_VEC, at)
        STORE_VEC(DST, dst, at, y);
    }
}

// From what all work-items of the channels know together: statistics, written by the part 0, and the part's results.
// Padding has no weight and no bias: it becomes 0, also where eps is.
#if LANES_Y > 1
#define SHARE_MOMENTS                \
    barrier(CLK_LOCAL_MEM_FENCE);    \
    mean = mean_of[lx];              \
    distance = distance_of[lx];
#else
#define SHARE_MOMENTS
#endif
#define NORMALISE                                                                                     \
    SHARE_MOMENTS                                                                                     \
    if (!live) return;                                                                                \
    const stat variance = distance / ((float)walk.images * walk.rows * (WIDE ? 1 : VECTOR));          \
    if (part == 0 && ly == 0) {                                                                       \
        STORE_CHANNELS(MEAN, mean_out, walk.channels, mean)                                           \
        STORE_CHANNELS(VAR, var_out, walk.channels, variance)                                         \
    }                                                                                                 \
    const stat weights = CHANNEL_VALUES(WEIGHT, weight, walk.channels);                               \
    const vec factor = OF_STAT((weights == 0.0f ? (stat)(0.0f) : weights / sqrt(variance + eps)));    \
    const vec shift = OF_STAT(CHANNEL_VALUES(BIAS, bias, walk.channels)), center = OF_STAT(mean);     \
    EACH_ROW(at) {                                                                                    \
        vec y = (LOAD_VEC(SRC, src, at) - center) * factor + shift;                                   \
        FINISH(vec, y, LOAD_VEC, at)                                                                  \
        STORE_VEC(DST, dst, at, y);                                                                   \
    }

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void batch_norm_training_joined(__global const STORAGE_T(SRC)* restrict src, __global const float* restrict stats,
                                __global const STORAGE_T(WEIGHT)* restrict weight,
                                __global const STORAGE_T(BIAS)* restrict bias, __global STORAGE_T(DST)* restrict dst,
                                __global STORAGE_T(MEAN)* restrict mean_out, __global STORAGE_T(VAR)* restrict var_out,
                                const channel_walk walk, const float eps OPERAND_PARAMETERS) {
    const int part = (int)(get_num_groups(1) - 1 - get_group_id(1));
    CHANNEL_BEGIN(part)
    const idx_t all = (idx_t)walk.blocks * walk.width;
    float count = 0.0f;
    stat mean = (stat)(0.0f), distance = (stat)(0.0f);
    for (int other_part = ly; other_part < walk.parts && live; other_part += LANES_Y) {
        const float more = (float)CHANNEL_ROWS_OF(other_part) * (WIDE ? 1 : VECTOR);
        JOIN_MOMENTS(stat, count, mean, distance, more, LOAD_STATS(stats, STATS_PLACE(other_part, 0)),
                     LOAD_STATS(stats, STATS_PLACE(other_part, 1)))
    }
    JOIN_LANES_Y
    NORMALISE
}

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void batch_norm_training_whole(__global const STORAGE_T(SRC)* restrict src, __global const STORAGE_T(WEIGHT)* restrict weight,
                               __global const STORAGE_T(BIAS)* restrict bias, __global STORAGE_T(DST)* restrict dst,
                               __global STORAGE_T(MEAN)* restrict mean_out, __global STORAGE_T(VAR)* restrict var_out,
                               const channel_walk walk, const float eps OPERAND_PARAMETERS) {
    const int part = 0;
    CHANNEL_BEGIN(part)
    MOMENTS_OF_ROWS
    NORMALISE
}
