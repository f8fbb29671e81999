// Borders added to a tensor or cut from it, source and result in one layout, a piece of the result a work-item.
//
//   dst[i] = src[i - begin] where that exists; elsewhere the value (PAD_MODE 0), the mirror image about the first or
//            last element (1) or the nearest element (2), along each dimension
//
// Tensors: SRC and DST of elements of BYTES bytes, whose neighbours in memory are neighbours along dimension UNIT.  In
// terms of indices i0, i1, ... of DST: PADDED_AT(i) is the offset in SRC of the element at PAD_SOURCE(i0, 0), ..., but
// at 0 along UNIT unless WHOLE; PADDED_INSIDE(i) says whether PAD_EXISTS(i0, 0), ... but for UNIT (PAD_MODE 0;
// else 1).  UNIT_INDEX(i) is the index along UNIT, SRC_ROW and DST_ROW are the sizes.  Dimensions to which nothing is
// added are left out of both.
//
// A work-item writes PIECE elements side by side; neighbours write neighbours in memory.  Where PIECE does not divide
// the size of UNIT (CROSS), a piece may go on in the next row, at most one: its size is no less than PIECE.  WHOLE:
// nothing is added along UNIT, so that pieces of src are read whole, padding of blocks included.
// Assumes that reflections stay inside of src: begins and ends are smaller than its sizes.
#ifndef BYTES
#define BYTES 4  // of an element: 1, 2, 4, 8
#endif
#include "common/pieces.clh"
#include "pad/source.clh"

#ifndef CROSS
#define CROSS 1  // PIECE does not divide the size of UNIT
#endif
#ifndef TAIL
#define TAIL CROSS  // PIECE does not divide the size of DST
#endif
#ifndef WHOLE
#define WHOLE 0  // along UNIT nothing is added, and PIECE divides what lies side by side
#endif
#ifndef DST_DTYPE  // on its own: plain, one dimension
#define UNIT 0
#define UNIT_INDEX(i) i##0
#define SRC_ROW PLAIN_DIM(src, 0)
#define DST_ROW PLAIN_DIM(dst, 0)
#define DST_INDICES(place, i) const idx_t i##0 = (place);
#define PADDED_AT(i) 0
#define PADDED_INSIDE(i) 1
#endif
#define PAD_EXISTS(i, d) ((uidx_t)((i) - (idx_t)pad.begin[d]) < (uidx_t)SRC_DIM(d))

// Ones at the bits from `from` to `to` - 1 that are those of a piece.
static inline uint bits_between(idx_t from, idx_t to) {
    const int first = (int)clamp(from, (idx_t)0, (idx_t)PIECE), last = (int)clamp(to, (idx_t)first, (idx_t)PIECE);
    return (1u << last) - (1u << first);
}

__kernel void pad_pieces(__global const RAW* restrict src, const tensor_arg src_arg, __global RAW* restrict dst,
                         const tensor_arg dst_arg, const pad_arg pad, const RAW value, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0) * PIECE;
    if (place >= places) return;
    DST_INDICES(place, i)
    RAW y[PIECE];
#if WHOLE
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) y[k] = UNIT_INDEX(i) + k < DST_ROW ? value : 0;
#if PAD_MODE == 0
    if (PADDED_INSIDE(i))
#endif
    {
        const idx_t from = PADDED_AT(i);
        RAW_LOAD(y, src, from)
    }
#else
    const idx_t begin = (idx_t)pad.begin[UNIT], size = SRC_ROW, u = UNIT_INDEX(i);
    const idx_t row = PADDED_AT(i);
    const bool inside = PADDED_INSIDE(i);
#if CROSS
    const idx_t left = DST_ROW - u;  // elements of this row
#if TAIL
    const idx_t last = min(place + PIECE - 1, places - 1);
#else
    const idx_t last = place + PIECE - 1;
#endif
    DST_INDICES(last, j)
    const idx_t next_row = PADDED_AT(j);
    const bool next_inside = PADDED_INSIDE(j);
#else
    const idx_t left = PIECE;
#endif
#if PAD_MODE == 0
    uint exist = inside ? bits_between(begin - u, min(begin + size - u, left)) : 0u;  // a bit each
    const idx_t here = row + u - begin;
#if CROSS
    exist |= next_inside ? bits_between(max(left, left + begin), left + begin + size) : 0u;
    const idx_t there = next_row - left - begin;
#else
    const idx_t there = here;
#endif
#if TAIL
    exist &= bits_between(0, places - place);
#endif
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
        y[k] = value;
        if (exist >> k & 1u) y[k] = src[(k >= left ? there : here) + k];
    }
#else
    _Pragma("unroll") for (int k = 0; k < PIECE; ++k) {
#if CROSS
        const bool next = k >= left;
        const idx_t s = (next ? k - left : u + k) - begin, from = next ? next_row : row;
        const bool exists = (next ? next_inside : inside) && place + k < places;
#else
        const idx_t s = u + k - begin, from = row;
        const bool exists = inside;
#endif
        y[k] = value;
        if (exists) y[k] = src[from + pad_source(s, size)];
    }
#endif
#endif
#if TAIL
    if (place + PIECE > places) {
        _Pragma("unroll") for (int k = 0; k < PIECE; ++k)
            if (place + k < places) dst[place + k] = y[k];
        return;
    }
#endif
    RAW_STORE(y, dst, place)
}
