// Weights for a convolution by Winograd's algorithm, in the transformed domain.
//
//   u[p * oc + o, i] = (G g G^T)[p / WINDOW, p % WINDOW],   g = wei[o, i]   (p < POINTS: conv_winograd.clh)
//
// With TURNED g is turned around: g[h, w] = wei[o, i, 2 - h, 2 - w].
// Tensors: WEI (oc, ic, d, 3, 3), d of size 1; U (points * oc, ic, 1, 1, 1), at U_OFFSET of its own layout: weights of the
// products, one group for each point; its padding was zeroed before.  One work-item transforms one filter; global ids:
// i, o.
#include "common/tensor.clh"
#include "conv/conv_winograd.clh"

#ifndef WEI_DTYPE  // on its own: f32, plain
#define WEI_DTYPE f32
#define WEI_OFFSET(o, i, d, h, w) PLAIN_OFFSET5(wei, o, i, d, h, w)
#define WEI_DIM(i) PLAIN_DIM(wei, i)
#define U_DTYPE f32
#define U_OFFSET(o, i, d, h, w) PLAIN_OFFSET5(u, o, i, d, h, w)
#endif
#ifndef TURNED
#define TURNED 0  // 1: of a transposed convolution: 0, 1
#endif

__kernel void conv_winograd_filter(TENSOR_IN(WEI, wei), TENSOR_OUT(U, u)) {
    const idx_t i = (idx_t)get_global_id(0), o = (idx_t)get_global_id(1);
    if (i >= WEI_DIM(1) || o >= WEI_DIM(0)) return;
    float between[3][WINDOW];  // by column: G g
    for (int w = 0; w < 3; ++w) {
        float g[3];
        for (int h = 0; h < 3; ++h) g[h] = LOAD(WEI, wei, WEI_OFFSET(o, i, 0, TURNED ? 2 - h : h, TURNED ? 2 - w : w));
        transform_filter(g, between[w]);
    }
    for (int y = 0; y < WINDOW; ++y) {
        float row[3], made[WINDOW];
        for (int w = 0; w < 3; ++w) row[w] = between[w][y];
        transform_filter(row, made);
        for (int x = 0; x < WINDOW; ++x)
            STORE(U, u, U_OFFSET((y * WINDOW + x) * WEI_DIM(0) + o, i, 0, 0, 0), made[x]);
    }
}
