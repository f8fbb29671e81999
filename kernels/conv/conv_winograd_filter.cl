// Weights for a convolution by Winograd's algorithm, in the transformed domain.
//
//   u[p * oc + o, i, k] = (G g G^T)[p / WINDOW, p % WINDOW],   g = wei[o, i, k]   (p < POINTS: conv_winograd.clh)
//
// With TURNED wei is turned around: g[h, w] = wei[o, i, kd - 1 - k, 2 - h, 2 - w].
// Tensors: WEI (oc, ic, kd, 3, 3); U (points * oc, ic, 1, kd, 1), at U_OFFSET of its own layout: weights of the
// products, one group for each point; its padding was zeroed before.  One work-item transforms one plane of a filter;
// global ids: i, o, k.
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
    const idx_t i = (idx_t)get_global_id(0), o = (idx_t)get_global_id(1), k = (idx_t)get_global_id(2);
    if (i >= WEI_DIM(1) || o >= WEI_DIM(0) || k >= WEI_DIM(2)) return;
    const idx_t plane = TURNED ? WEI_DIM(2) - 1 - k : k;
    float between[3][WINDOW];  // by column: G g
    for (int w = 0; w < 3; ++w) {
        float g[3];
        for (int h = 0; h < 3; ++h)
            g[h] = LOAD(WEI, wei, WEI_OFFSET(o, i, plane, TURNED ? 2 - h : h, TURNED ? 2 - w : w));
        transform_filter(g, between[w]);
    }
    for (int y = 0; y < WINDOW; ++y) {
        float row[3], made[WINDOW];
        for (int w = 0; w < 3; ++w) row[w] = between[w][y];
        transform_filter(row, made);
        for (int x = 0; x < WINDOW; ++x)
            STORE(U, u, U_OFFSET((y * WINDOW + x) * WEI_DIM(0) + o, i, 0, k, 0), made[x]);
    }
}
