// Up to eight tensors of one layout joined along a dimension.
//
// In the order of memory each is a stack of rows that lie side by side in the result: a row is what the dimension and
// everything inside of it hold.
//
//   dst[row, end(k - 1) + i] = src_k[row, i]        end(k) the pieces of a row up to tensor k and with it
//
// PIECE is an unsigned type as large as divides all rows.  One work-item copies one piece of dst; neighbours write
// neighbours in memory.  `first` is where these tensors begin in a row of dst, `pitch` the pieces of that row; tensors
// beyond the last one have its end.
#ifndef PIECE
#define PIECE uint4  // uchar, ushort, uint, uint2, uint4
#endif
#ifndef INPUTS
#define INPUTS 2  // tensors: 1 to 8
#endif
#if INPUTS > 1
#define PL_ALSO_1 , __global const PIECE* restrict src1
#define PL_FROM_1 if (i >= ends.s0) from = src1 + row * (ends.s1 - ends.s0) + (i - ends.s0);
#else
#define PL_ALSO_1
#define PL_FROM_1
#endif
#if INPUTS > 2
#define PL_ALSO_2 , __global const PIECE* restrict src2
#define PL_FROM_2 if (i >= ends.s1) from = src2 + row * (ends.s2 - ends.s1) + (i - ends.s1);
#else
#define PL_ALSO_2
#define PL_FROM_2
#endif
#if INPUTS > 3
#define PL_ALSO_3 , __global const PIECE* restrict src3
#define PL_FROM_3 if (i >= ends.s2) from = src3 + row * (ends.s3 - ends.s2) + (i - ends.s2);
#else
#define PL_ALSO_3
#define PL_FROM_3
#endif
#if INPUTS > 4
#define PL_ALSO_4 , __global const PIECE* restrict src4
#define PL_FROM_4 if (i >= ends.s3) from = src4 + row * (ends.s4 - ends.s3) + (i - ends.s3);
#else
#define PL_ALSO_4
#define PL_FROM_4
#endif
#if INPUTS > 5
#define PL_ALSO_5 , __global const PIECE* restrict src5
#define PL_FROM_5 if (i >= ends.s4) from = src5 + row * (ends.s5 - ends.s4) + (i - ends.s4);
#else
#define PL_ALSO_5
#define PL_FROM_5
#endif
#if INPUTS > 6
#define PL_ALSO_6 , __global const PIECE* restrict src6
#define PL_FROM_6 if (i >= ends.s5) from = src6 + row * (ends.s6 - ends.s5) + (i - ends.s5);
#else
#define PL_ALSO_6
#define PL_FROM_6
#endif
#if INPUTS > 7
#define PL_ALSO_7 , __global const PIECE* restrict src7
#define PL_FROM_7 if (i >= ends.s6) from = src7 + row * (ends.s7 - ends.s6) + (i - ends.s6);
#else
#define PL_ALSO_7
#define PL_FROM_7
#endif

__kernel void concat_rows(__global PIECE* restrict dst, const uint first, const uint pitch, const uint rows,
                          const uint8 ends, __global const PIECE* restrict src0 PL_ALSO_1 PL_ALSO_2 PL_ALSO_3 PL_ALSO_4
                              PL_ALSO_5 PL_ALSO_6 PL_ALSO_7) {
    const uint place = (uint)get_global_id(0), row = place / ends.s7, i = place - row * ends.s7;
    if (row >= rows) return;
    __global const PIECE* from = src0 + row * ends.s0 + i;
    PL_FROM_1 PL_FROM_2 PL_FROM_3 PL_FROM_4 PL_FROM_5 PL_FROM_6 PL_FROM_7
    dst[row * pitch + first + i] = *from;
}
