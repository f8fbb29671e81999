// Up to eight tensors of one layout joined along a dimension, for CPUs.
//
// In the order of memory each is a stack of rows that lie side by side in the result (kernels/concat/concat_rows.cl):
//
//   dst[row, first + end(k - 1) + i] = src_k[row, i]        end(k) the elements of a row up to tensor k and with it
//
// A work-item copies one of `chunks` parts of each tensor's row, by vectors of 16 elements.  `pitch` are the elements
// of a row of dst; `first` is where these tensors begin there; tensors beyond the last one have its end.
// Work-item ids: 0 chunks, 1 rows.
#ifndef ELEMENT
#define ELEMENT uint  // unsigned, of a size that divides all rows: uchar, ushort, uint
#endif
#ifndef INPUTS
#define INPUTS 2  // tensors: 1 to 8
#endif
#define PL_SOURCE(k) __global const ELEMENT* restrict src##k
#if INPUTS > 1
#define PL_ALSO_1 , PL_SOURCE(1)
#define PL_COPY_1 PL_COPY(src1, ends.s0, ends.s1)
#else
#define PL_ALSO_1
#define PL_COPY_1
#endif
#if INPUTS > 2
#define PL_ALSO_2 , PL_SOURCE(2)
#define PL_COPY_2 PL_COPY(src2, ends.s1, ends.s2)
#else
#define PL_ALSO_2
#define PL_COPY_2
#endif
#if INPUTS > 3
#define PL_ALSO_3 , PL_SOURCE(3)
#define PL_COPY_3 PL_COPY(src3, ends.s2, ends.s3)
#else
#define PL_ALSO_3
#define PL_COPY_3
#endif
#if INPUTS > 4
#define PL_ALSO_4 , PL_SOURCE(4)
#define PL_COPY_4 PL_COPY(src4, ends.s3, ends.s4)
#else
#define PL_ALSO_4
#define PL_COPY_4
#endif
#if INPUTS > 5
#define PL_ALSO_5 , PL_SOURCE(5)
#define PL_COPY_5 PL_COPY(src5, ends.s4, ends.s5)
#else
#define PL_ALSO_5
#define PL_COPY_5
#endif
#if INPUTS > 6
#define PL_ALSO_6 , PL_SOURCE(6)
#define PL_COPY_6 PL_COPY(src6, ends.s5, ends.s6)
#else
#define PL_ALSO_6
#define PL_COPY_6
#endif
#if INPUTS > 7
#define PL_ALSO_7 , PL_SOURCE(7)
#define PL_COPY_7 PL_COPY(src7, ends.s6, ends.s7)
#else
#define PL_ALSO_7
#define PL_COPY_7
#endif

// Part `chunk` of the elements from `begin` to `end` of dst's row.
#define PL_COPY(src, begin, end)                                                                   \
    {                                                                                              \
        const uint size = end - begin, part = ((size + chunks - 1) / chunks + 15) / 16 * 16;       \
        const uint stop = min((chunk + 1) * part, size);                                           \
        __global const ELEMENT* from = src + row * size;                                           \
        __global ELEMENT* to = dst + row * pitch + first + begin;                                  \
        uint i = chunk * part;                                                                     \
        for (; i + 16 <= stop; i += 16) vstore16(vload16(0, from + i), 0, to + i);                 \
        for (; i < stop; ++i) to[i] = from[i];                                                     \
    }

__kernel __attribute__((intel_vec_len_hint(1)))  // work-items are not to be the lanes of vectors too
void concat_runs(__global ELEMENT* restrict dst, const uint first, const uint pitch, const uint rows, const uint8 ends,
                 const uint chunks,
                 PL_SOURCE(0) PL_ALSO_1 PL_ALSO_2 PL_ALSO_3 PL_ALSO_4 PL_ALSO_5 PL_ALSO_6 PL_ALSO_7) {
    const uint chunk = (uint)get_global_id(0), row = (uint)get_global_id(1);
    if (chunk >= chunks || row >= rows) return;
    PL_COPY(src0, 0, ends.s0)
    PL_COPY_1 PL_COPY_2 PL_COPY_3 PL_COPY_4 PL_COPY_5 PL_COPY_6 PL_COPY_7
}
