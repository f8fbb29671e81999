// Copies matrices into panels for matmul_tiled: 16 columns side by side, k after k, in f32.
//
//   pan[b, n, k] = b[b, k, n] for n < DST's columns, 0 for the rest of the last panel
// b stands for six stacking dimensions b0 .. b5, in which both have the same sizes.
//
// Tensors: B (b0 .. b5, k, n) at B_OFFSET of its layout; PAN (b0 .. b5, n, k), n in blocks of 16, innermost.
// One work-item copies TILE_K rows of a panel; global ids: tile of k, panel, b.
#include "common/tensor.clh"

#ifndef B_DTYPE  // on its own: f32, plain to panels
#define PLAIN_OFFSET8(t, a, b, c, d, e, f, m, n) \
    (PLAIN_OFFSET6(t, a, b, c, d, e, f) + (m)*PLAIN_STRIDE(t, 6) + (n)*PLAIN_STRIDE(t, 7))
#define B_DTYPE f32
#define B_OFFSET(b0, b1, b2, b3, b4, b5, k, n) PLAIN_OFFSET8(b, b0, b1, b2, b3, b4, b5, k, n)
#define B_DIM(i) PLAIN_DIM(b, i)
#define B_UNIT_DIM 7
#define B_UNIT_RUN 0
#define PAN_DTYPE f32
#define PAN_OFFSET(b0, b1, b2, b3, b4, b5, n, k) \
    (PLAIN_OFFSET8(pan, b0, b1, b2, b3, b4, b5, (n) >> 4, k) + ((n) & 15))
#endif

#ifndef TILE_K
#define TILE_K 16  // rows a work-item: 1, 4, 16, 64
#endif

__kernel void matmul_pack(TENSOR_IN(B, b), TENSOR_OUT(PAN, pan)) {
    const idx_t first = (idx_t)get_global_id(0) * TILE_K, n0 = (idx_t)get_global_id(1) * 16;
    idx_t rest = (idx_t)get_global_id(2);
    const idx_t b5 = rest % B_DIM(5);
    rest /= B_DIM(5);
    const idx_t b4 = rest % B_DIM(4);
    rest /= B_DIM(4);
    const idx_t b3 = rest % B_DIM(3);
    rest /= B_DIM(3);
    const idx_t b2 = rest % B_DIM(2);
    rest /= B_DIM(2);
    const idx_t b1 = rest % B_DIM(1), b0 = rest / B_DIM(1);
    const idx_t last = min(first + TILE_K, B_DIM(6)), columns = B_DIM(7) - n0;
    if (first >= last || columns <= 0 || b0 >= B_DIM(0)) return;
    for (idx_t k = first; k < last; ++k) {
        const idx_t to = PAN_OFFSET(b0, b1, b2, b3, b4, b5, n0, k);
#if B_UNIT_DIM == 7 && B_UNIT_RUN == 0
        if (columns >= 16) {
            const float16 row = LOADV(B, 16, b, B_OFFSET(b0, b1, b2, b3, b4, b5, k, n0));
            STOREV(PAN, 16, pan, to, row);
            continue;
        }
#endif
        for (idx_t j = 0; j < 16; ++j) {
            const float value = j < columns ? LOAD(B, b, B_OFFSET(b0, b1, b2, b3, b4, b5, k, n0 + j)) : 0.0f;
            STORE(PAN, pan, to + j, value);
        }
    }
}
