// Weights as conv_fwd_stream.cl copies them: pieces of 16 bytes along the input channels, those of one step of all
// output channels side by side, and permuted within each row as local memory wants them (PL_SWIZZLE of common/mma.clh,
// 8 pieces a step).
//
//   dst[step][o][p ^ o % 8] = piece p of that step of row o;  zero behind the last channel
//
// SRC: `rows` output channels x `taps` kernel positions x `pieces` pieces of 16 bytes, dense.  Steps go through the
// pieces of a position, 8 at a time, then through positions.  One work-item writes one piece.
__kernel void conv_fwd_stream_pack(__global const uint4* restrict src, __global uint4* restrict dst, const ulong rows,
                                   const ulong taps, const ulong pieces) {
    const ulong i = get_global_id(0), place = i % 8, row = i / 8 % rows, step = i / 8 / rows;
    const ulong steps = (pieces + 7) / 8, tap = step / steps, p = step % steps * 8 + (place ^ (row & 7));
    if (tap >= taps) return;
    dst[i] = p < pieces ? src[(row * taps + tap) * pieces + p] : (uint4)(0);
}
