// Rows of a table, looked up and joined by bags.
//
//   dst[b, c] = sum over j from ends[b - 1] to ends[b] of scales[j] * weight[index[j], c]     JOIN 0; 1: their mean
//   dst[b, c] = the largest of weight[index[j], c], the first and what is larger than that    JOIN 2; 3: its row
//
// Negative indices count from the end; rows that are out of range and the row `padding` count for nothing.  Ends are
// limited to the indices that there are.  A bag without rows is zero.
// Tensors, dense: INDEX (indices) and ENDS (bags), s32 or s64, WEIGHT (rows, width), SCALES (indices), DST (bags, width).
// One work-item makes one element of dst; neighbours read neighbours of a row.
#include "common/tensor.clh"

#ifndef INDEX_DTYPE  // on its own: f32
#define INDEX_DTYPE s64
#define WEIGHT_DTYPE f32
#define ENDS_DTYPE s64
#define DST_DTYPE f32
#endif
#ifndef JOIN
#define JOIN 0  // 0: the sum, 1: the mean, 2: the largest, 3: the row of the largest
#endif

#define END_AT(b) ((b) < 0 ? 0L : clamp((long)LOAD(ENDS, ends, b), 0L, (long)indices))

__kernel void embedding_bag_columns(__global const STORAGE_T(INDEX)* restrict index,
                                    __global const STORAGE_T(WEIGHT)* restrict weight,
                                    __global const STORAGE_T(ENDS)* restrict ends,
#ifdef SCALES_DTYPE
                                    __global const STORAGE_T(SCALES)* restrict scales,
#endif
                                    __global STORAGE_T(DST)* restrict dst, const long indices, const long rows,
                                    const uint width, const long padding, const uint elements) {
    const uint place = (uint)get_global_id(0);
    if (place >= elements) return;
    const uint bag = place / width, column = place - bag * width;
    const long end = END_AT((int)bag);
    float joined = 0.0f;
    long chosen = 0;
    int count = 0;
    for (long j = END_AT((int)bag - 1); j < end; ++j) {
        long row = LOAD(INDEX, index, j);
        if (row < 0) row += rows;
        if (row < 0 || row >= rows || row == padding) continue;
        const float value = LOAD(WEIGHT, weight, row * width + column);
#if JOIN < 2
#ifdef SCALES_DTYPE
        joined += value * LOAD(SCALES, scales, j);
#else
        joined += value;
#endif
#else
        if (count == 0 || value > joined) {
            joined = value;
            chosen = row;
        }
#endif
        ++count;
    }
#if JOIN == 1
    if (count > 1) joined /= (float)count;
#endif
#if JOIN == 3
    STORE(DST, dst, place, chosen);
#else
    STORE(DST, dst, place, joined);
#endif
}
