// Copies an activation into memory with a border of zeros, so that a convolution need not look where its window ends.
//
//   dst[a][y][x][i] = src[a][y - top][x - left][i] where that lies within src, else 0
// with a over outer blocks, i < run the channels that lie side by side: (n, h, w, c) and (n, c / 16, h, w, 16) are both
// arrays (outer, rows, columns, run).
//
// src begins at element `offset`; elements are copied as they are, of any dtype.  One work-item copies one row y of one outer block; global ids: y, a.
#ifndef ELEMENT
#define ELEMENT uint  // an unsigned type as large as the dtype
#endif

typedef struct {
    int run;                // elements that lie side by side
    int rows, columns;      // of src
    int top, left;          // of the border
    int padded_rows, padded_columns;
    int outer;
} border_arg;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((intel_vec_len_hint(1)))
void conv_pad_rows(__global const ELEMENT* restrict src, __global ELEMENT* restrict dst, const int offset,
                   const border_arg b) {
    const int y = (int)get_global_id(0), a = (int)get_global_id(1);
    const int width = b.padded_columns * b.run, from = y - b.top;
    __global ELEMENT* out = dst + (a * b.padded_rows + y) * width;
    if (from < 0 || from >= b.rows) {
        for (int i = 0; i < width; ++i) out[i] = 0;
        return;
    }
    const int inner = b.columns * b.run, left = b.left * b.run;
    __global const ELEMENT* in = src + offset + (a * b.rows + from) * inner;
    for (int i = 0; i < left; ++i) out[i] = 0;
    for (int i = 0; i < inner; ++i) out[left + i] = in[i];
    for (int i = left + inner; i < width; ++i) out[i] = 0;
}
