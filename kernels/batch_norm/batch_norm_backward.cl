// The gradients of batch normalisation by the statistics of the batch, in one to three launches.
//
// With h = (src - mean) / sqrt(variance + eps), and means over images and positions of a channel:
//   dst = weight / sqrt(variance + eps) * (grad - mean(grad) - h * mean(grad * h))
//   dweight = sum(grad * h), dbias = sum(grad)
// with SLOPED grad times a function's slope at h * weight + bias in the place of grad.
//
// batch_norm_backward_parts: sums of grad and of grad * (src - mean) of each part of each channel,
// stats[part][2][channel] behind the factors.  batch_norm_backward_join: those of all parts, in one order; writes dweight and dbias and, for
// the last launch, factors[4][channel]: mean, weight / sqrt(variance + eps), mean(grad) and what h is multiplied by
// without its mean.  batch_norm_backward: dst.  With few parts batch_norm_backward_joined does both: each work-group
// joins all parts of its channels.  With one part batch_norm_backward_whole does all: each work-group reads its channels
// twice, the second time from a cache.
//
// Tensors: SRC, GRAD and DST, described alike and addressed by common/channel_parts.clh, which says what a work-item
// takes; MEAN, VAR, WEIGHT, DWEIGHT and DBIAS, with SLOPED BIAS (c).
#include "common/activation.clh"
#include "common/arithmetic.clh"
#include "common/channel_parts.clh"
#include "common/lane_sums.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define GRAD_DTYPE f32
#define DST_DTYPE f32
#define MEAN_DTYPE f32
#define VAR_DTYPE f32
#define WEIGHT_DTYPE f32
#define DWEIGHT_DTYPE f32
#define DBIAS_DTYPE f32
#define BIAS_DTYPE f32
#endif
#ifndef SLOPED
#define SLOPED 0  // 1: the result was a function's argument
#endif
#ifndef SLOPE_VALUE  // of the function's argument x0 and the gradient x1, behind the statements SLOPE_TEXT
#define SLOPE_TEXT
#define SLOPE_VALUE (x0 > 0.0f ? x1 : 0.0f)
#endif
#ifndef INVERTED
#define INVERTED 0  // 1: VAR is 1 / sqrt(variance + eps)
#endif
#if INVERTED
#define INVERSE_OF(variance, eps_) (variance)
#else
#define INVERSE_OF(variance, eps_) (1.0f / sqrt((variance) + eps_))
#endif
// Behind the other parameters of a kernel that reads grad; what a channel's results were scaled by, 0 in padding, also
// where eps is; grad behind the function.
#if SLOPED
static inline float slope_of_(const float x0, const float x1) {
    SLOPE_TEXT
    return SLOPE_VALUE;
}
#if VECTOR == 1
#define SLOPE(y, g) slope_of_(y, g)
#elif VECTOR == 2
static inline vec SLOPE(const vec y, const vec g) { return (vec)(slope_of_(y.s0, g.s0), slope_of_(y.s1, g.s1)); }
#else
static inline vec SLOPE(const vec y, const vec g) {
    return (vec)(slope_of_(y.s0, g.s0), slope_of_(y.s1, g.s1), slope_of_(y.s2, g.s2), slope_of_(y.s3, g.s3));
}
#endif
#define SLOPE_OF_KERNEL                                                                                     \
    , __global const STORAGE_T(VAR)* restrict var_of, __global const STORAGE_T(WEIGHT)* restrict weight_of, \
        __global const STORAGE_T(BIAS)* restrict bias_of, const float eps_of
#define SLOPE_BEGIN                                                                                   \
    const stat weights_ = CHANNEL_VALUES(WEIGHT, weight_of, walk.channels);                           \
    const vec factor_ = OF_STAT(                                                                      \
        (weights_ == 0.0f ? (stat)(0.0f)                                                              \
                          : weights_ * INVERSE_OF(CHANNEL_VALUES(VAR, var_of, walk.channels), eps_of))); \
    const vec shift_ = OF_STAT(CHANNEL_VALUES(BIAS, bias_of, walk.channels));
#define GRAD_BEHIND(g, away) SLOPE(away* factor_ + shift_, g)
#else
#define SLOPE_OF_KERNEL
#define SLOPE_BEGIN
#define GRAD_BEHIND(g, away) (g)
#endif

// The work-item's sums of grad and of grad * (src - mean) over its rows of a part.
#if WIDE || VECTOR == 1
#define SUMS_OF_STAT stat sum = sums, product = products;
#else
#define SUMS_OF_STAT float sum = SUM_OF_VEC(sums), product = SUM_OF_VEC(products);
#endif
#define SUMS_OF_ROWS                                               \
    vec sums = (vec)(0.0f), products = (vec)(0.0f);                \
    EACH_ROW(at) {                                                 \
        const vec away = LOAD_VEC(SRC, src, at) - mean;            \
        const vec g = GRAD_BEHIND(LOAD_VEC(GRAD, grad, at), away); \
        sums += g;                                                 \
        products += g * away;                                      \
    }                                                              \
    SUMS_OF_STAT

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void batch_norm_backward_parts(__global const STORAGE_T(SRC)* restrict src, __global const STORAGE_T(GRAD)* restrict grad,
                               __global const STORAGE_T(MEAN)* restrict mean_in, __global float* restrict stats,
                               const channel_walk walk SLOPE_OF_KERNEL) {
    const int part = (int)get_group_id(1);
    CHANNEL_BEGIN(part)
    SLOPE_BEGIN
    const vec mean = OF_STAT(CHANNEL_VALUES(MEAN, mean_in, walk.channels));
    SUMS_OF_ROWS
    SUM_OF_LANES(stat)
    if (ly > 0 || !live) return;
    const idx_t all = (idx_t)walk.blocks * walk.width;
    STORE_STATS(stats, STATS_PLACE(part, 0), sum);
    STORE_STATS(stats, STATS_PLACE(part, 1), product);
}

__kernel __attribute__((reqd_work_group_size(JOIN_LANES, 1, 1)))
void batch_norm_backward_join(__global const float* restrict stats, __global float* restrict factors,
                              __global const STORAGE_T(MEAN)* restrict mean_in,
                              __global const STORAGE_T(VAR)* restrict var_in,
                              __global const STORAGE_T(WEIGHT)* restrict weight,
                              __global STORAGE_T(DWEIGHT)* restrict dweight, __global STORAGE_T(DBIAS)* restrict dbias,
                              const channel_walk walk, const float eps) {
    const int channel = (int)get_group_id(0), lane = (int)get_local_id(0);
    const idx_t all = (idx_t)walk.blocks * walk.width;
    float sum = 0.0f, product = 0.0f;
    for (int part = lane; part < walk.parts; part += JOIN_LANES) {
        sum += stats[STATS_PLACE(part, 0)];
        product += stats[STATS_PLACE(part, 1)];
    }
#if JOIN_LANES > 1
    __local float sum_of[JOIN_LANES], product_of[JOIN_LANES];
    SUMS_BY_HALVING(JOIN_LANES, lane, sum_of + lane, product_of + lane, 1, sum, product)
#endif
    if (lane > 0) return;
    const bool inside = channel < walk.channels;
    const float count = (float)walk.images * walk.rows * (WIDE ? 1 : VECTOR);
    const float inverse = inside ? INVERSE_OF(LOAD(VAR, var_in, channel), eps) : 0.0f;
    factors[channel] = inside ? LOAD(MEAN, mean_in, channel) : 0.0f;
    factors[all + channel] = inside ? LOAD(WEIGHT, weight, channel) * inverse : 0.0f;
    factors[2 * all + channel] = sum / count;
    factors[3 * all + channel] = product * inverse * inverse / count;
    if (!inside) return;
    STORE(DWEIGHT, dweight, channel, product * inverse);
    STORE(DBIAS, dbias, channel, sum);
}

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void batch_norm_backward(__global const STORAGE_T(SRC)* restrict src, __global const STORAGE_T(GRAD)* restrict grad,
                         __global STORAGE_T(DST)* restrict dst, __global const float* restrict factors,
                         const channel_walk walk SLOPE_OF_KERNEL) {
    // From the last part on: what the first launch read last may still be in a cache.
    const int part = (int)(get_num_groups(1) - 1 - get_group_id(1));
    CHANNEL_BEGIN(part)
    if (!live) return;
    SLOPE_BEGIN
    const idx_t all = (idx_t)walk.blocks * walk.width;
    const vec mean = OF_STAT(LOAD_STATS(factors, channel)), scale = OF_STAT(LOAD_STATS(factors, all + channel));
    const vec of_grad = OF_STAT(LOAD_STATS(factors, 2 * all + channel));
    const vec of_product = OF_STAT(LOAD_STATS(factors, 3 * all + channel));
    EACH_ROW(at) {
        const vec away = LOAD_VEC(SRC, src, at) - mean;
        const vec y = scale * (GRAD_BEHIND(LOAD_VEC(GRAD, grad, at), away) - of_grad - away * of_product);
        STORE_VEC(DST, dst, at, y);
    }
}

// From the sums of all work-items of the channels: dweight and dbias, written by the part 0, and the part's dst.
// Padding becomes 0, also where eps is.
#if LANES_Y > 1
#define SHARE_SUMS                \
    barrier(CLK_LOCAL_MEM_FENCE); \
    sum = sum_of[lx];             \
    product = product_of[lx];
#else
#define SHARE_SUMS
#endif
#define GRADIENTS                                                                                               \
    const float count = (float)walk.images * walk.rows * (WIDE ? 1 : VECTOR);                                   \
    const stat weights = CHANNEL_VALUES(WEIGHT, weight, walk.channels);                                         \
    const stat inverse = weights == 0.0f && product == 0.0f                                                     \
                             ? (stat)(0.0f)                                                                     \
                             : INVERSE_OF(CHANNEL_VALUES(VAR, var_in, walk.channels), eps);                     \
    if (part == 0 && ly == 0) {                                                                                 \
        STORE_CHANNELS(DWEIGHT, dweight, walk.channels, product * inverse)                                      \
        STORE_CHANNELS(DBIAS, dbias, walk.channels, sum)                                                        \
    }                                                                                                           \
    const vec scale = OF_STAT((weights * inverse)), of_grad = OF_STAT((sum / count));                           \
    const vec of_product = OF_STAT((product * inverse * inverse / count));                                      \
    EACH_ROW(at) {                                                                                              \
        const vec away = LOAD_VEC(SRC, src, at) - mean;                                                         \
        const vec y = scale * (GRAD_BEHIND(LOAD_VEC(GRAD, grad, at), away) - of_grad - away * of_product);     \
        STORE_VEC(DST, dst, at, y);                                                                             \
    }

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void batch_norm_backward_joined(__global const STORAGE_T(SRC)* restrict src, __global const STORAGE_T(GRAD)* restrict grad,
                                __global const float* restrict stats, __global const STORAGE_T(MEAN)* restrict mean_in,
                                __global const STORAGE_T(VAR)* restrict var_in,
                                __global const STORAGE_T(WEIGHT)* restrict weight,
                                __global STORAGE_T(DST)* restrict dst, __global STORAGE_T(DWEIGHT)* restrict dweight,
                                __global STORAGE_T(DBIAS)* restrict dbias, const channel_walk walk,
                                const float eps SLOPE_OF_KERNEL) {
    const int part = (int)(get_num_groups(1) - 1 - get_group_id(1));
    CHANNEL_BEGIN(part)
    const idx_t all = (idx_t)walk.blocks * walk.width;
    stat sum = (stat)(0.0f), product = (stat)(0.0f);
    for (int other_part = ly; other_part < walk.parts && live; other_part += LANES_Y) {
        sum += LOAD_STATS(stats, STATS_PLACE(other_part, 0));
        product += LOAD_STATS(stats, STATS_PLACE(other_part, 1));
    }
    SUM_OF_LANES(stat)
    SHARE_SUMS
    if (!live) return;
    SLOPE_BEGIN
    const vec mean = OF_STAT(CHANNEL_VALUES(MEAN, mean_in, walk.channels));
    GRADIENTS
}

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void batch_norm_backward_whole(__global const STORAGE_T(SRC)* restrict src, __global const STORAGE_T(GRAD)* restrict grad,
                               __global const STORAGE_T(MEAN)* restrict mean_in,
                               __global const STORAGE_T(VAR)* restrict var_in,
                               __global const STORAGE_T(WEIGHT)* restrict weight,
                               __global STORAGE_T(DST)* restrict dst, __global STORAGE_T(DWEIGHT)* restrict dweight,
                               __global STORAGE_T(DBIAS)* restrict dbias, const channel_walk walk,
                               const float eps SLOPE_OF_KERNEL) {
    const int part = 0;
    CHANNEL_BEGIN(part)
    SLOPE_BEGIN
    const vec mean = OF_STAT(CHANNEL_VALUES(MEAN, mean_in, walk.channels));
    SUMS_OF_ROWS
    SUM_OF_LANES(stat)
    SHARE_SUMS
    if (!live) return;
    GRADIENTS
}
