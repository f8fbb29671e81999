// Products of stacks of matrices, any layouts: the kernel that is there when no other one is.
//
//   dst[b, m, n] = activation(sum over k of a[b, m, k] * w[b, k, n] + bias[n] + res[b, m, n])
// b stands for six stacking dimensions b0 .. b5; where A or B has size 1 in one of them it is repeated.
//
// Tensors: A (b0 .. b5, m, k), B (b0 .. b5, k, n), DST and RES (b0 .. b5, m, n), BIAS (n); each at *_OFFSET of its own
// layout; transposed operands come with their last two dimensions swapped.
// One work-item writes one element of dst, padding (as zero) included: global ids are n, m and b, padded.
// The sum is kept in f32, in the order of k.
#include "common/epilogue.clh"

#ifndef A_DTYPE  // on its own: f32, plain
#define PLAIN_OFFSET8(t, a, b, c, d, e, f, m, n) \
    (PLAIN_OFFSET6(t, a, b, c, d, e, f) + (m)*PLAIN_STRIDE(t, 6) + (n)*PLAIN_STRIDE(t, 7))
#define A_DTYPE f32
#define A_OFFSET(b0, b1, b2, b3, b4, b5, m, k) PLAIN_OFFSET8(a, b0, b1, b2, b3, b4, b5, m, k)
#define A_DIM(i) PLAIN_DIM(a, i)
#define B_DTYPE f32
#define B_OFFSET(b0, b1, b2, b3, b4, b5, k, n) PLAIN_OFFSET8(b, b0, b1, b2, b3, b4, b5, k, n)
#define B_DIM(i) PLAIN_DIM(b, i)
#define DST_DTYPE f32
#define DST_OFFSET(b0, b1, b2, b3, b4, b5, m, n) PLAIN_OFFSET8(dst, b0, b1, b2, b3, b4, b5, m, n)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_PADDED(i) PLAIN_DIM(dst, i)
#endif

// Index i in stacking dimension `dim` of tensor T, for tensors that are repeated along it.
#define STACKED(T, dim, i) min((i), T##_DIM(dim) - 1)

__kernel void matmul_direct(TENSOR_IN(A, a), TENSOR_IN(B, b), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS) {
    const idx_t n = (idx_t)get_global_id(0), m = (idx_t)get_global_id(1);
    idx_t rest = (idx_t)get_global_id(2);
    const idx_t b5 = rest % DST_PADDED(5);
    rest /= DST_PADDED(5);
    const idx_t b4 = rest % DST_PADDED(4);
    rest /= DST_PADDED(4);
    const idx_t b3 = rest % DST_PADDED(3);
    rest /= DST_PADDED(3);
    const idx_t b2 = rest % DST_PADDED(2);
    rest /= DST_PADDED(2);
    const idx_t b1 = rest % DST_PADDED(1), b0 = rest / DST_PADDED(1);
    if (n >= DST_PADDED(7) || m >= DST_PADDED(6) || b0 >= DST_PADDED(0)) return;
    const idx_t to = DST_OFFSET(b0, b1, b2, b3, b4, b5, m, n);
    if (n >= DST_DIM(7) || m >= DST_DIM(6) || b5 >= DST_DIM(5) || b4 >= DST_DIM(4) || b3 >= DST_DIM(3) ||
        b2 >= DST_DIM(2) || b1 >= DST_DIM(1) || b0 >= DST_DIM(0)) {
        STORE(DST, dst, to, 0);
        return;
    }
    const idx_t a0 = STACKED(A, 0, b0), a1 = STACKED(A, 1, b1), a2 = STACKED(A, 2, b2), a3 = STACKED(A, 3, b3),
                a4 = STACKED(A, 4, b4), a5 = STACKED(A, 5, b5);
    const idx_t w0 = STACKED(B, 0, b0), w1 = STACKED(B, 1, b1), w2 = STACKED(B, 2, b2), w3 = STACKED(B, 3, b3),
                w4 = STACKED(B, 4, b4), w5 = STACKED(B, 5, b5);
    float sum = 0.0f;
    for (idx_t k = 0; k < A_DIM(7); ++k)
        sum += LOAD(A, a, A_OFFSET(a0, a1, a2, a3, a4, a5, m, k)) * LOAD(B, b, B_OFFSET(w0, w1, w2, w3, w4, w5, k, n));
    const float y = EPILOGUE(sum, n, RES_OFFSET(b0, b1, b2, b3, b4, b5, m, n));
    STORE(DST, dst, to, y);
}
