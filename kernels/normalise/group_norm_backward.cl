// The gradients of group_norm, in four launches; each image's channels are channels of their own (channel_parts.h).
//
// With h = (src - mean) / sqrt(variance + eps), g = grad * weight, and means over a group of channels of an image:
//   dst = (g - mean(g) - h * mean(g * h)) / sqrt(variance + eps)
//   dweight = sum(grad * h), dbias = sum(grad), over images and positions
//
// group_norm_backward_parts: of each part of each channel the sums of src and of its squares, of grad and of grad * src,
// with src less the channel's first element, stats[part][4][channel] behind the factors.  group_norm_backward_join:
// factors[6][channel] of all parts, GROUP work-items a group: weight / sqrt(variance + eps), mean, what src - mean is
// multiplied by, what is taken away besides, and the image's share of dweight and of dbias.  group_norm_backward: dst.
// group_norm_backward_weights: dweight and dbias.  Sums have one order.
//
// Tensors: SRC, GRAD and DST, described alike; WEIGHT, DWEIGHT and DBIAS (c).
#include "common/channel_parts.clh"
#include "common/lane_sums.clh"
#include "common/rows.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define GRAD_DTYPE f32
#define DST_DTYPE f32
#define DWEIGHT_DTYPE f32
#endif
#ifdef WEIGHT_DTYPE
#define WEIGHT_PARAMETER , __global const STORAGE_T(WEIGHT)* restrict weight
#define WEIGHT_OF(c) LOAD(WEIGHT, weight, c)
#else
#define WEIGHT_PARAMETER
#define WEIGHT_OF(c) 1.0f
#endif

typedef struct {
    int images, groups, width, padded;  // width: channels of a group; padded: channels of an image, with padding
} norm_groups;

enum { kScale, kMean, kOfAway, kRest, kOfWeight, kOfBias, kFactors };  // the numbers of a channel
#define FACTOR(k, channel) ((idx_t)(k)*all + (channel))
#define STAT_OF_PART(part, k, channel) (((idx_t)(part)*4 + (k) + kFactors) * all + (channel))
#if WIDE
#define FIRST_OF_CHANNEL LOAD_VEC(SRC, src, ROW_PLACE_OF(0))
#else
#define FIRST_OF_CHANNEL LOAD(SRC, src, ROW_PLACE_OF(0))
#endif
#if WIDE || VECTOR == 1
#define TO_STAT(v) (v)
#else
#define TO_STAT(v) SUM_OF_VEC(v)
#endif

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void group_norm_backward_parts(__global const STORAGE_T(SRC)* restrict src, __global const STORAGE_T(GRAD)* restrict grad,
                               __global float* restrict factors, const channel_walk walk) {
    const int part = (int)get_group_id(1);
    CHANNEL_BEGIN(part)
    const idx_t all = (idx_t)walk.blocks * walk.width;
    stat first = (stat)(0.0f);
    if (live) first = FIRST_OF_CHANNEL;
    vec sum = (vec)(0.0f), square = (vec)(0.0f), of_grad = (vec)(0.0f), product = (vec)(0.0f);
    EACH_ROW(at) {
        const vec away = LOAD_VEC(SRC, src, at) - OF_STAT(first), g = LOAD_VEC(GRAD, grad, at);
        sum += away;
        square += away * away;
        of_grad += g;
        product += g * away;
    }
    stat sums[4] = {TO_STAT(sum), TO_STAT(square), TO_STAT(of_grad), TO_STAT(product)};
    __local stat shared[LANES_Y * LANES_X];
    _Pragma("unroll") for (int k = 0; k < 4; ++k) {
        SUM_OVER_LANES(shared, sums[k])
    }
    if (ly > 0 || !live) return;
    if (part == 0) STORE_STATS(factors, FACTOR(kMean, channel), first);
    _Pragma("unroll") for (int k = 0; k < 4; ++k) STORE_STATS(factors, STAT_OF_PART(part, k, channel), sums[k]);
}

__kernel void group_norm_backward_join(__global float* restrict factors WEIGHT_PARAMETER, const channel_walk walk,
                                       const norm_groups shape, const float eps) {
    const int group = (int)get_global_id(0) / GROUP, lane = (int)get_global_id(0) % GROUP;
#if GROUP > 1
    __local float scratch[GROUP];
#endif
    const idx_t all = (idx_t)walk.blocks * walk.width;
    const int image = group / shape.groups, first = group % shape.groups * shape.width;
    const int begin = image * shape.padded + first;
    const float count = (float)walk.rows * (WIDE ? 1 : VECTOR), every = count * shape.width;
    // Of each channel first: mean, sum of squares about it, sums of grad and of grad about the mean.
    float mean = 0.0f;
    for (int i = lane; i < shape.width; i += GROUP) {
        const int channel = begin + i;
        float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int part = 0; part < walk.parts; ++part)
            _Pragma("unroll") for (int k = 0; k < 4; ++k) sums[k] += factors[STAT_OF_PART(part, k, channel)];
        const float away = sums[0] / count, own = factors[FACTOR(kMean, channel)] + away;
        factors[FACTOR(kMean, channel)] = own;
        factors[FACTOR(kScale, channel)] = sums[1] - sums[0] * away;
        factors[FACTOR(kOfBias, channel)] = sums[2];
        factors[FACTOR(kOfWeight, channel)] = sums[3] - sums[2] * away;
        mean += own;
    }
    mean = ROW_SUM(scratch, mean) / (float)shape.width;
    float square = 0.0f;
    for (int i = lane; i < shape.width; i += GROUP) {
        const float away = factors[FACTOR(kMean, begin + i)] - mean;
        square += factors[FACTOR(kScale, begin + i)] + count * away * away;
    }
    const float inverse = 1.0f / sqrt(ROW_SUM(scratch, square) / every + eps);
    float of_grad = 0.0f, of_product = 0.0f;
    for (int i = lane; i < shape.width; i += GROUP) {
        const int channel = begin + i;
        const float sum = factors[FACTOR(kOfBias, channel)];
        const float away = factors[FACTOR(kMean, channel)] - mean;
        const float product = (factors[FACTOR(kOfWeight, channel)] + sum * away) * inverse;
        factors[FACTOR(kOfWeight, channel)] = product;
        of_grad += sum * WEIGHT_OF(first + i);
        of_product += product * WEIGHT_OF(first + i);
    }
    of_grad = ROW_SUM(scratch, of_grad) * inverse / every;
    of_product = ROW_SUM(scratch, of_product) * inverse * inverse / every;
    for (int i = lane; i < shape.width; i += GROUP) {
        const int channel = begin + i;
        factors[FACTOR(kScale, channel)] = inverse * WEIGHT_OF(first + i);
        factors[FACTOR(kMean, channel)] = mean;
        factors[FACTOR(kOfAway, channel)] = of_product;
        factors[FACTOR(kRest, channel)] = of_grad;
    }
    if (first + shape.width < shape.groups * shape.width) return;
    for (int channel = begin + shape.width + lane; channel < (image + 1) * shape.padded; channel += GROUP)
        for (int k = 0; k <= kRest; ++k) factors[FACTOR(k, channel)] = 0.0f;  // of padding, which stays 0
}

__kernel __attribute__((reqd_work_group_size(LANES_X, LANES_Y, 1)))
void group_norm_backward(__global const STORAGE_T(SRC)* restrict src, __global const STORAGE_T(GRAD)* restrict grad,
                         __global STORAGE_T(DST)* restrict dst, __global const float* restrict factors,
                         const channel_walk walk) {
    // From the last part on: what the first launch read last may still be in a cache.
    const int part = (int)(get_num_groups(1) - 1 - get_group_id(1));
    CHANNEL_BEGIN(part)
    if (!live) return;
    const idx_t all = (idx_t)walk.blocks * walk.width;
    const vec scale = OF_STAT(LOAD_STATS(factors, FACTOR(kScale, channel)));
    const vec mean = OF_STAT(LOAD_STATS(factors, FACTOR(kMean, channel)));
    const vec of_away = OF_STAT(LOAD_STATS(factors, FACTOR(kOfAway, channel)));
    const vec rest = OF_STAT(LOAD_STATS(factors, FACTOR(kRest, channel)));
    EACH_ROW(at) {
        const vec away = LOAD_VEC(SRC, src, at) - mean;
        STORE_VEC(DST, dst, at, scale * LOAD_VEC(GRAD, grad, at) - away * of_away - rest);
    }
}

__kernel void group_norm_backward_weights(__global const float* restrict factors,
                                          __global STORAGE_T(DWEIGHT)* restrict dweight,
                                          __global STORAGE_T(DWEIGHT)* restrict dbias, const channel_walk walk,
                                          const norm_groups shape) {
    const int channel = (int)get_global_id(0);
    if (channel >= shape.groups * shape.width) return;
    const idx_t all = (idx_t)walk.blocks * walk.width;
    float product = 0.0f, sum = 0.0f;
    for (int image = 0; image < shape.images; ++image) {
        product += factors[FACTOR(kOfWeight, image * shape.padded + channel)];
        sum += factors[FACTOR(kOfBias, image * shape.padded + channel)];
    }
    STORE(DWEIGHT, dweight, channel, product);
    STORE(DWEIGHT, dbias, channel, sum);
}
