// f32 numbers rounded to the nearest of 11 significant bits, halves to even: what matrix units take as tf32 and would
// otherwise cut.
//
//   dst[from + i] = round(src[i]);   infinities stay, a NaN stays one, what rounds beyond the largest becomes infinite
//
// SRC and DST hold `count` numbers; one work-item rounds one.

__kernel void round_to_tf32(__global const float* restrict src, __global float* restrict dst, const ulong count,
                            const ulong from) {
    const size_t i = get_global_id(0);
    if (i >= count) return;
    const uint bits = as_uint(src[i]), rounded = (bits + 0xfffu + ((bits >> 13) & 1u)) & 0xffffe000u;
    dst[from + i] = as_float((bits & 0x7f800000u) == 0x7f800000u ? bits : rounded);
}
