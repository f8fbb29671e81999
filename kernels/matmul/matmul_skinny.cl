// Products of few rows, as of fully connected layers and of 1x1 convolutions of one position: both matrices with the
// terms of the sum innermost.
//
//   dst[m, n] = activation(sum over k of src[m, k] * wei[n, k] + bias[n] + res[m, n])
//
// NORMS: SRC is normalised where it is read (an RMS norm):
//   dst[m, n] = activation(scale[m] * sum over k of src[m, k] * weight[k] * wei[n, k] + ...)
//   scale[m] = 1 / sqrt(mean over k of src[m, k]^2 + eps)
// with WEIGHT (terms) where it has one.
// BEHIND: in place of dst there is, of `results` columns and as many rows,
//   out[m, n] = behind(dst[m, n + part0], dst[m, n + part1])
//
// Tensors: SRC (rows, terms), WEI (columns, terms), DST and RES (rows, columns), dense; BIAS (columns).  terms is a
// multiple of VECTOR.
//
// LANES work-items share the terms of TILE_M x TILE_N results, every LANES-th piece of VECTOR each, UNROLL of them at a
// time, so that neighbours read side by side and few results still fill a device.  Their sums are added by NEAR of them,
// then by one.  A work-group takes TILES such tiles beside each other.  Sums are kept in f32.  Group ids: 1 columns, 2
// rows.
#include "common/epilogue.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define WEI_DTYPE f32
#define DST_DTYPE f32
#endif
#ifndef NORMS
#define NORMS 0
#endif
#if NORMS
#define NORM_PARAMETER , const float eps
#else
#define NORM_PARAMETER
#endif
#ifdef BEHIND_VALUE
#define RESULT_PARAMETER __global STORAGE_T(OUT)* restrict out
#define BEHIND_PARAMETERS , const idx_t results, const idx_t part0, const idx_t part1
#define COLUMN(n, j) ((n) + ((j) == 0 ? part0 : part1))
#define COLUMNS_OF_TILE 1  // of results
#else
#define RESULT_PARAMETER TENSOR_OUT(DST, dst)
#define BEHIND_PARAMETERS
#define COLUMN(n, j) ((n) + (j))
#define COLUMNS_OF_TILE TILE_N
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
#ifndef UNROLL
#define UNROLL 2  // pieces whose loads are on their way at a time
#endif
#ifndef TILES
#define TILES 2  // tiles of a work-group: 1, 2, 4, 8, 16
#endif

#define SUMS_OF_ROW (TILE_N + NORMS)  // the last one of squares
#define SUMS (TILE_M * SUMS_OF_ROW)
#define STEP (LANES * VECTOR)
#define NEAR (LANES > 64 ? 16 : LANES > 8 ? 8 : LANES)

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
#define LOAD_PIECES(x, w, k)                                                                                       \
    {                                                                                                              \
        _Pragma("unroll") for (int j = 0; j < TILE_N; ++j) (w)[j] = LOAD_PIECE(WEI, wei, right[j] + (k));          \
        _Pragma("unroll") for (int i = 0; i < TILE_M; ++i) (x)[i] = LOAD_PIECE(SRC, src, left[i] + (k));           \
    }
#define ADD_PIECES(x, w, k)                                                                                        \
    {                                                                                                              \
        NORM_PIECES(x, k)                                                                                          \
        _Pragma("unroll") for (int i = 0; i < TILE_M; ++i)                                                         \
            _Pragma("unroll") for (int j = 0; j < TILE_N; ++j) ADD_PIECE(sum[i][j], (x)[i], (w)[j]);               \
    }
#define FACTORS LOAD_PIECE
#include "normalise/weights.clh"
#if NORMS
#define NORM_PIECES(x, k)                                                                                          \
    _Pragma("unroll") for (int i = 0; i < TILE_M; ++i) {                                                           \
        ADD_PIECE(sum[i][TILE_N], (x)[i], (x)[i]);                                                                 \
        (x)[i] = (x)[i] TIMES_WEIGHT(k);                                                                           \
    }
#else
#define NORM_PIECES(x, k)
#endif

static inline float sum_of_near(__local const float* of) {
    float sum = of[0];
    _Pragma("unroll") for (int t = 1; t < NEAR; ++t) sum += of[t];
    return sum;
}

__kernel __attribute__((reqd_work_group_size(LANES, TILES, 1)))
void matmul_skinny(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), RESULT_PARAMETER EPILOGUE_PARAMETERS WEIGHT_PARAMETER
                   NORM_PARAMETER BEHIND_PARAMETERS, const idx_t rows, const idx_t columns, const idx_t terms) {
    __local float lanes[TILES][SUMS][LANES + 1];  // one more: lanes begin in different banks
    const int lane = (int)get_local_id(0), tile = (int)get_local_id(1);
    const idx_t m0 = (idx_t)get_group_id(2) * TILE_M, n0 = ((idx_t)get_group_id(1) * TILES + tile) * COLUMNS_OF_TILE;
    float sum[TILE_M][SUMS_OF_ROW];
    idx_t left[TILE_M], right[TILE_N];  // beyond the last row or column: the last one again
    _Pragma("unroll") for (int i = 0; i < TILE_M; ++i) left[i] = min(m0 + i, rows - 1) * terms;
    _Pragma("unroll") for (int j = 0; j < TILE_N; ++j) right[j] = min(COLUMN(n0, j), columns - 1) * terms;
    _Pragma("unroll") for (int i = 0; i < TILE_M; ++i)
        _Pragma("unroll") for (int j = 0; j < SUMS_OF_ROW; ++j) sum[i][j] = 0.0f;
    idx_t k = lane * VECTOR;
    for (; k + (UNROLL - 1) * STEP < terms; k += UNROLL * STEP) {
        piece_t x[UNROLL][TILE_M], w[UNROLL][TILE_N];
        _Pragma("unroll") for (int u = 0; u < UNROLL; ++u) LOAD_PIECES(x[u], w[u], k + u * STEP)
        _Pragma("unroll") for (int u = 0; u < UNROLL; ++u) ADD_PIECES(x[u], w[u], k + u * STEP)
    }
    for (; k < terms; k += STEP) {
        piece_t x[TILE_M], w[TILE_N];
        LOAD_PIECES(x, w, k)
        ADD_PIECES(x, w, k)
    }
    _Pragma("unroll") for (int i = 0; i < TILE_M; ++i)
        _Pragma("unroll") for (int j = 0; j < SUMS_OF_ROW; ++j) lanes[tile][i * SUMS_OF_ROW + j][lane] = sum[i][j];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANES > NEAR) {
        for (uint at = (uint)lane; at < SUMS * NEAR; at += LANES) {
            __local float* of = lanes[tile][at / NEAR] + at % NEAR;
            float near = of[0];
            _Pragma("unroll") for (int t = NEAR; t < LANES; t += NEAR) near += of[t];
            of[0] = near;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#define SUM_OF(i, j) sum_of_near(lanes[tile][(i) * SUMS_OF_ROW + (j)])
#if NORMS
#define RESULT_OF(i, j) (SUM_OF(i, j) / sqrt(SUM_OF(i, TILE_N) / (float)terms + eps))
#else
#define RESULT_OF(i, j) SUM_OF(i, j)
#endif
#ifdef BEHIND_VALUE
    for (int i = lane; i < TILE_M; i += LANES) {
        if (m0 + i >= rows || n0 >= results) continue;
        const idx_t at0 = (m0 + i) * columns + COLUMN(n0, 0), at1 = (m0 + i) * columns + COLUMN(n0, 1);
        const float v0 = EPILOGUE(RESULT_OF(i, 0), COLUMN(n0, 0), at0);
        const float v1 = EPILOGUE(RESULT_OF(i, 1), COLUMN(n0, 1), at1);
        BEHIND_TEXT
        STORE(OUT, out, (m0 + i) * results + n0, BEHIND_VALUE);
    }
#else
    for (int e = lane; e < TILE_M * TILE_N; e += LANES) {
        const int i = e / TILE_N, j = e % TILE_N;
        const idx_t m = m0 + i, n = n0 + j;
        if (m >= rows || n >= columns) continue;
        const idx_t at = m * columns + n;
        STORE(DST, dst, at, EPILOGUE(RESULT_OF(i, j), n, at));
    }
#endif
}
