// Reorder by tiles in registers, for CPUs, where the source and the destination run along different axes:
//   dst[a + b * dst_stride_b + outer] = src[a * src_stride_a + b + outer]
//
// Axis a has stride 1 in dst, axis b in src; the other axes are `outer`.  A work-item transposes up to STRIP tiles of
// TILE x TILE elements that follow each other along b: TILE vectors are loaded, interleaved, and stored.  A last tile
// that would leave an axis begins early, so that some elements are written twice, with the same value.
// Work-item ids: 0 strips of tiles along b, 1 tiles along a, 2 the outer axes.
#ifndef ELEMENT
#define ELEMENT uint  // of the elements' size: uchar, ushort, uint
#endif
#ifndef TILE
#define TILE 16  // elements along both axes: 4, 8, 16
#endif
#ifndef STRIP
#define STRIP 4  // tiles: 1 to 8
#endif
#ifndef OUTER
#define OUTER 1  // axes besides a and b: 1 to 12
#endif

#define PL_CAT_(a, b) a##b
#define PL_CAT(a, b) PL_CAT_(a, b)
typedef PL_CAT(ELEMENT, TILE) vec;

typedef struct {
    int count_a, count_b, src_stride_a, dst_stride_b, src_offset, dst_offset, outer;
    int size[OUTER], src_stride[OUTER], dst_stride[OUTER];  // of the outer axes, outermost first
} transposed_arg;

// The first and the second half of two vectors, taken in turns.
#if TILE == 16
#define LOWS(a, b)                                                                                                   \
    (vec)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define HIGHS(a, b)                                                                                                  \
    (vec)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf)
#elif TILE == 8
#define LOWS(a, b) (vec)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3)
#define HIGHS(a, b) (vec)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#else
#define LOWS(a, b) (vec)(a.s0, b.s0, a.s1, b.s1)
#define HIGHS(a, b) (vec)(a.s2, b.s2, a.s3, b.s3)
#endif
// With the numbers of row and lane written as one, this rotates its bits by one: as often as a lane's number has bits,
// and rows and lanes have changed places.
#define INTERLEAVE(to, from)                                            \
    _Pragma("unroll") for (int k = 0; k < TILE / 2; ++k) {              \
        to[2 * k] = LOWS(from[k], from[k + TILE / 2]);                  \
        to[2 * k + 1] = HIGHS(from[k], from[k + TILE / 2]);             \
    }

__kernel __attribute__((intel_vec_len_hint(1)))  // work-items are not to be the lanes of vectors too
void reorder_transposed(__global const ELEMENT* restrict src, __global ELEMENT* restrict dst, const transposed_arg t) {
    const int strip = (int)get_global_id(0) * STRIP * TILE, tile_a = (int)get_global_id(1) * TILE;
    int rest = (int)get_global_id(2);
    if (strip >= t.count_b || tile_a >= t.count_a || rest >= t.outer) return;
    int from = t.src_offset, to = t.dst_offset;
    for (int i = OUTER - 1; i >= 0; --i) {
        const int k = rest % t.size[i];
        rest /= t.size[i];
        from += k * t.src_stride[i];
        to += k * t.dst_stride[i];
    }
    const int a = min(tile_a, t.count_a - TILE);
    for (int n = 0; n < STRIP && strip + n * TILE < t.count_b; ++n) {
        const int b = min(strip + n * TILE, t.count_b - TILE);
        vec x[TILE], y[TILE];
        _Pragma("unroll") for (int k = 0; k < TILE; ++k)
            x[k] = PL_CAT(vload, TILE)(0, src + from + (a + k) * t.src_stride_a + b);
        INTERLEAVE(y, x)
        INTERLEAVE(x, y)
#if TILE > 4
        INTERLEAVE(y, x)
#endif
#if TILE > 8
        INTERLEAVE(x, y)
#endif
        _Pragma("unroll") for (int k = 0; k < TILE; ++k)
            PL_CAT(vstore, TILE)(TILE == 8 ? y[k] : x[k], 0, dst + to + a + (b + k) * t.dst_stride_b);
    }
}
