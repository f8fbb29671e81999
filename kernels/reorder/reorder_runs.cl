// Reorder by runs of elements that lie side by side in the source and in the destination, for CPUs:
//   dst[r + step * dst_step + outer] = src[r + step * src_step + outer]
//
// A work-item copies CHUNK runs that follow each other along one axis, `step`; the other axes are `outer`.
// Work-item ids: 0 chunks of runs, 1 the outer axes.
#ifndef ELEMENT
#define ELEMENT uint  // of the elements' size: uchar, ushort, uint, ulong
#endif
#ifndef RUN
#define RUN 16  // elements of a run
#endif
#ifndef CHUNK
#define CHUNK 32  // runs a work-item: 8 to 64
#endif
#ifndef OUTER
#define OUTER 1  // axes besides those of the run and of steps: 1 to 12
#endif

#define PL_CAT_(a, b) a##b
#define PL_CAT(a, b) PL_CAT_(a, b)
#define VECTOR 16
#define WHOLE (RUN / VECTOR * VECTOR)

typedef struct {
    int steps, src_step, dst_step, src_offset, dst_offset, outer;
    int size[OUTER], src_stride[OUTER], dst_stride[OUTER];  // of the outer axes, outermost first
} runs_arg;

__kernel __attribute__((intel_vec_len_hint(1)))  // work-items are not to be the lanes of vectors too
void reorder_runs(__global const ELEMENT* restrict src, __global ELEMENT* restrict dst, const runs_arg t) {
    const int first = (int)get_global_id(0) * CHUNK;
    int rest = (int)get_global_id(1);
    if (first >= t.steps || rest >= t.outer) return;
    int from = t.src_offset, to = t.dst_offset;
    for (int i = OUTER - 1; i >= 0; --i) {
        const int k = rest % t.size[i];
        rest /= t.size[i];
        from += k * t.src_stride[i];
        to += k * t.dst_stride[i];
    }
    for (int step = first; step < min(first + CHUNK, t.steps); ++step) {
        __global const ELEMENT* s = src + from + step * t.src_step;
        __global ELEMENT* d = dst + to + step * t.dst_step;
        for (int r = 0; r < WHOLE; r += VECTOR) PL_CAT(vstore, VECTOR)(PL_CAT(vload, VECTOR)(0, s + r), 0, d + r);
#if RUN % 16 >= 8
        vstore8(vload8(0, s + WHOLE), 0, d + WHOLE);
#endif
#if RUN % 8 >= 4
        vstore4(vload4(0, s + RUN / 8 * 8), 0, d + RUN / 8 * 8);
#endif
#if RUN % 4 > 0
        for (int r = RUN / 4 * 4; r < RUN; ++r) d[r] = s[r];
#endif
    }
}
