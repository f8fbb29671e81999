// f32 numbers rounded to tf32:  dst[from + i] = nearest_tf32(src[i])
//
// SRC and DST hold `count` numbers; one work-item rounds one.
#include "common/tf32.clh"

__kernel void round_to_tf32(__global const float* restrict src, __global float* restrict dst, const ulong count,
                            const ulong from) {
    const size_t i = get_global_id(0);
    if (i >= count) return;
    dst[from + i] = nearest_tf32(src[i]);
}
