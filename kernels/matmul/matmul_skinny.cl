// Products of few rows, as of fully connected layers and of 1x1 convolutions of one position: both matrices with the
// terms of the sum innermost.
//
//   dst[m, n] = activation(sum over k of src[m, k] * wei[n, k] + bias[n] + res[m, n])
//
// Tensors: SRC (rows, terms), WEI (columns, terms), DST and RES (rows, columns), dense; BIAS (columns).  terms is a
// multiple of VECTOR.
//
// LANES work-items share the terms of TILE_M x TILE_N results, every LANES-th piece of VECTOR each, so that neighbours
// read side by side and few results still fill a device; their sums are added in pairs.  A work-group takes TILES such
// tiles beside each other.  Sums are kept in f32.  Group ids: 1 columns, 2 rows.
#include "common/epilogue.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define WEI_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef TILE_M
#define TILE_M 4  // rows of a tile: 1, 2, 4, 8
#endif
#ifndef TILE_N
#define TILE_N 2  // columns: 1, 2, 4
#endif
#ifndef VECTOR
#define VECTOR 4  // terms of a load: 4, 8
#endif
#ifndef LANES
#define LANES 32  // work-items that share the terms: 8, 16, 32, 64, 128
#endif
#ifndef TILES
#define TILES 2  // tiles of a work-group: 1, 2, 4, 8, 16
#endif

#define ADD_QUAD(sum, x, w) \
    sum = fma((x).s3, (w).s3, fma((x).s2, (w).s2, fma((x).s1, (w).s1, fma((x).s0, (w).s0, sum))))
#if VECTOR == 8
typedef float8 piece_t;
#define LOAD_PIECE LOAD_OCT
#define ADD_PIECE(sum, x, w)            \
    {                                   \
        ADD_QUAD(sum, (x).lo, (w).lo);  \
        ADD_QUAD(sum, (x).hi, (w).hi);  \
    }
#else
typedef float4 piece_t;
#define LOAD_PIECE LOAD_QUAD
#define ADD_PIECE(sum, x, w) ADD_QUAD(sum, x, w)
#endif

__kernel __attribute__((reqd_work_group_size(LANES, TILES, 1)))
void matmul_skinny(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                   const idx_t rows, const idx_t columns, const idx_t terms) {
    __local float lanes[TILES][TILE_M * TILE_N][LANES + 1];  // one more: lanes begin in different banks
    const int lane = (int)get_local_id(0), tile = (int)get_local_id(1);
    const idx_t m0 = (idx_t)get_group_id(2) * TILE_M, n0 = ((idx_t)get_group_id(1) * TILES + tile) * TILE_N;
    float sum[TILE_M][TILE_N];
    idx_t left[TILE_M], right[TILE_N];  // beyond the last row or column: the last one again
    _Pragma("unroll") for (int i = 0; i < TILE_M; ++i) left[i] = min(m0 + i, rows - 1) * terms;
    _Pragma("unroll") for (int j = 0; j < TILE_N; ++j) right[j] = min(n0 + j, columns - 1) * terms;
    _Pragma("unroll") for (int i = 0; i < TILE_M; ++i)
        _Pragma("unroll") for (int j = 0; j < TILE_N; ++j) sum[i][j] = 0.0f;
    _Pragma("unroll 4") for (idx_t k = lane * VECTOR; k < terms; k += LANES * VECTOR) {
        piece_t x[TILE_M], w[TILE_N];
        _Pragma("unroll") for (int j = 0; j < TILE_N; ++j) w[j] = LOAD_PIECE(WEI, wei, right[j] + k);
        _Pragma("unroll") for (int i = 0; i < TILE_M; ++i) x[i] = LOAD_PIECE(SRC, src, left[i] + k);
        _Pragma("unroll") for (int i = 0; i < TILE_M; ++i)
            _Pragma("unroll") for (int j = 0; j < TILE_N; ++j) ADD_PIECE(sum[i][j], x[i], w[j]);
    }
    _Pragma("unroll") for (int i = 0; i < TILE_M; ++i)
        _Pragma("unroll") for (int j = 0; j < TILE_N; ++j) lanes[tile][i * TILE_N + j][lane] = sum[i][j];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_of = LANES / 2; half_of > 0; half_of /= 2) {
        if (lane < half_of)
            _Pragma("unroll") for (int e = 0; e < TILE_M * TILE_N; ++e)
                lanes[tile][e][lane] += lanes[tile][e][lane + half_of];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int e = lane; e < TILE_M * TILE_N; e += LANES) {
        const idx_t m = m0 + e / TILE_N, n = n0 + e % TILE_N;
        if (m >= rows || n >= columns) continue;
        const idx_t at = m * columns + n;
        STORE(DST, dst, at, EPILOGUE(lanes[tile][e][0], n, at));
    }
}
