// Windows put back where they were taken from, added up where they overlap (col2im), any layout.
//
//   dst[n, c, q] = sum over k and p with p * stride - begin + k * dilation = q of src[n, c * elements + k, p]
// with q, k and p in (d, h, w), k and p counted with the last one innermost.
//
// Tensors: SRC (n, c * elements, windows) and DST (n, c, d, h, w), each at *_OFFSET of its own layout.
// One work-item writes one element of dst, padding (as zero) included: for each element k of a window it reads the one
// window that has it here, if there is one.  Sums in f32, in the order of k.  Neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, p) PLAIN_OFFSET3(src, n, c, p)
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET5(dst, i##0, i##1, i##2, i##3, i##4)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) PLAIN_INDICES5(dst, place, i)
#endif

// The window whose element k lies at q; -1 or not below their number where there is none.
#define WINDOW_AT(q, k, axis) \
    window_at((q) + window.begin[axis] - (k) * (idx_t)window.dilation[axis], window.stride[axis])
static inline idx_t window_at(idx_t first, int stride) { return first < 0 || first % stride ? -1 : first / stride; }

__kernel void fold_direct(TENSOR_IN(SRC, src), TENSOR_OUT(DST, dst), const window_arg window, const idx_t windows_d,
                          const idx_t windows_h, const idx_t windows_w, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    COMPUTE_T(SRC) sum = 0;
    if (DST_INSIDE(i)) {
        const idx_t first = i1 * window.size[0] * window.size[1] * window.size[2];
        for (int kd = 0; kd < window.size[0]; ++kd) {
            const idx_t d = WINDOW_AT(i2, kd, 0);
            if (d < 0 || d >= windows_d) continue;
            for (int kh = 0; kh < window.size[1]; ++kh) {
                const idx_t h = WINDOW_AT(i3, kh, 1);
                if (h < 0 || h >= windows_h) continue;
                for (int kw = 0; kw < window.size[2]; ++kw) {
                    const idx_t w = WINDOW_AT(i4, kw, 2);
                    if (w < 0 || w >= windows_w) continue;
                    const idx_t k = (kd * window.size[1] + kh) * window.size[2] + kw;
                    sum += LOAD(SRC, src, SRC_OFFSET(i0, first + k, (d * windows_h + h) * windows_w + w));
                }
            }
        }
    }
    STORE(DST, dst, DST_AT(i), sum);
}
