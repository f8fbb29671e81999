// Scaled dot product attention by tiles, on matrix units; the scores are never written.
//
//   dst[h, i, c] = sum over j of p[j] * v[h, j, c] / sum over j of p[j],   p[j] = exp(s[j] - max over j of s[j]),
//   s[j] = scale * (sum over e of q[h, i, e] * k[h, j, e]) + mask[h, i, j]
//
// With dropout (attention/dropout.clh) p[j] in the first sum is multiplied by its factor.  SINKS, (..., l, 1) as rows,
// are scores of the second sum and of the maximum alone.
//
// Tensors: Q, K, V and DST of MATRIX_DTYPE as rows (common/rows.clh: eight dimensions, index 6 counts queries or keys,
// 7 their columns, which lie side by side; those before name the head), any strides: rows of heads that lie between
// those of others are read where they are.  MASK alike, with strides of 0 where it is repeated.  WIDTH: columns of Q
// and K, VALUES: of V and DST.  PIECES 1: all rows of Q, K and V begin at multiples of 16 bytes and are as long.
// `scale`: times log2(e).
//
// A work-group computes TILE_M queries of one head, each warp TILE_M / WARPS_M of them, and goes through the keys
// TILE_N at a time.  What a query has seen so far is its largest score `top`, the sum `total` of p and the sums of
// p * v, all of which are scaled down when a larger score appears (M. Milakov, N. Gimelshein, Online normalizer
// calculation for softmax, arXiv 1805.02867; T. Dao, FlashAttention-2, arXiv 2307.08691).  Scores stay in the registers
// in which the unit gives them and are the left factors of the second product as they lie there: of 16 bits in pairs of
// neighbouring keys; of f32 terms t and t + 4 of a step are keys 2 t and 2 t + 1, and v is read in that order.
// Exponents are of 2.  A score of -infinity, masked or not, takes no part, whatever its v; a query without others gives
// zeros.  Where a sum of p * v is not finite although that of p is, and where a score of three products is not, it is
// computed again term by term: infinities cannot be split, and 0 * infinity is no 0.
//
// NVIDIA_PTX 1: mma.sync; precision, PRODUCTS and PROMOTE as in common/mma.clh.  Otherwise plain OpenCL C by the same
// work-items: f32 fma over tiles in local memory, through which weights go too.
// Local memory: STAGES tiles of keys and values, rows of pieces of 16 bytes an odd number of them apart, so that
// neither pieces of eight rows nor the values of four pairs of keys meet in a bank.
#ifndef TILE_M
#define TILE_M 64  // queries of a work-group: 32, 64, 128
#endif
#ifndef TILE_N
#define TILE_N 32  // keys at a time: 16, 32, 64
#endif
#ifndef WARPS_M
#define WARPS_M 4  // warps, each of a multiple of 16 queries: 1, 2, 4, 8
#endif
#ifndef STAGES
#define STAGES 2  // tiles of keys and values in local memory at a time: 1, 2
#endif
#ifndef PROMOTE
#define PROMOTE 1  // times 8 terms that the unit adds by itself, with PRODUCTS 3: 1, 2
#endif
#ifndef WIDTH
#define WIDTH 64
#define VALUES 64
#endif
#ifndef GROUP
#define GROUP 1  // heads (index 5) of q that share one of k and v
#endif
#ifndef CAUSAL
#define CAUSAL 0  // 1: query i sees keys 0 to i
#endif
#ifndef RISING
#define RISING 0  // 1: scale is more than 0
#endif
#ifndef PIECES
#define PIECES 0  // 1: rows are whole pieces of 16 bytes
#endif
#ifndef PAIRS
#define PAIRS 0  // 1: DST's even columns lie at even places
#endif
#include "attention/dropout.clh"
#include "attention/heads.clh"
#ifndef Q_DTYPE  // on its own: f32, plain matrices
#define Q_DTYPE MATRIX_DTYPE
#define Q_OFFSET(a, b, c, d, e, f, g, h) (q_arg.offset + (f)*q_arg.stride[5])
#define Q_STRIDE(i) PLAIN_STRIDE(q, i)
#define K_DTYPE MATRIX_DTYPE
#define K_OFFSET(a, b, c, d, e, f, g, h) (k_arg.offset + (f)*k_arg.stride[5])
#define K_STRIDE(i) PLAIN_STRIDE(k, i)
#define K_DIM(i) PLAIN_DIM(k, i)
#define V_DTYPE MATRIX_DTYPE
#define V_OFFSET(a, b, c, d, e, f, g, h) (v_arg.offset + (f)*v_arg.stride[5])
#define V_STRIDE(i) PLAIN_STRIDE(v, i)
#define DST_DTYPE MATRIX_DTYPE
#define DST_OFFSET(a, b, c, d, e, f, g, h) (dst_arg.offset + (f)*dst_arg.stride[5])
#define DST_STRIDE(i) PLAIN_STRIDE(dst, i)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif

#define K_CHUNKS ROW_CHUNKS(WIDTH)
#define K_STEPS ROW_STEPS(WIDTH)
#define K_PITCH ROW_PITCH(WIDTH)
#define V_BLOCKS ROW_BLOCKS(VALUES)
#define V_CHUNKS (MMA_BITS == 32 ? V_BLOCKS * 2 : V_BLOCKS)
#define V_PITCH (V_CHUNKS | 1)
#define STAGE_SLOTS (TILE_N * (K_PITCH + V_PITCH))
#define Q_SLOTS (TILE_M * K_PITCH)
#if NVIDIA_PTX
// Queries go to registers. They lie in the last stage, before it is filled for the first time, or come before all else.
#define Q_ALONE (STAGES == 1 || Q_SLOTS > STAGE_SLOTS)
#define Q_AT (Q_ALONE ? 0 : (STAGES - 1) * STAGE_SLOTS)
#define P_AT 0
#define LOCAL_SLOTS (Q_SLOTS > STAGES * STAGE_SLOTS ? Q_SLOTS : STAGES * STAGE_SLOTS)
#else
#define Q_AT (STAGES * STAGE_SLOTS)
#define P_AT (Q_AT + Q_SLOTS)
#define LOCAL_SLOTS (P_AT + TILE_M * P_PITCH + TILE_M)  // what rows share lies behind the weights
#endif
#define V_AT(stage) ((stage)*STAGE_SLOTS + TILE_N * K_PITCH)
#define COPY_TILE(tile, stage)                                                                                        \
    {                                                                                                                 \
        const idx_t key_ = (tile) * (idx_t)TILE_N;                                                                    \
        COPY_ROWS((stage)*STAGE_SLOTS, K_PITCH, K_CHUNKS, k + (k_at + key_ * K_STRIDE(6)), K_STRIDE(6), TILE_N,       \
                  keys - key_, WIDTH)                                                                                 \
        COPY_ROWS(V_AT(stage), V_PITCH, V_CHUNKS, v + (v_at + key_ * V_STRIDE(6)), V_STRIDE(6), TILE_N, keys - key_,  \
                  VALUES)                                                                                             \
    }

// Without a mask and a limit, and with RISING, scores are scaled on their way into the power of 2.
#if !defined(MASK_DTYPE) && !defined(SOFTCAP) && RISING
#define FOLDED 1
#define FACTOR scale
#else
#define FOLDED 0
#define FACTOR 1.0f
#endif

static inline float product_of_rows(__global const STORAGE_T(Q)* q, __global const STORAGE_T(K)* k) {
    float sum = 0.0f;
    for (int e = 0; e < WIDTH; ++e) sum = fma(LOAD(Q, q, e), LOAD(K, k, e), sum);
    return sum;
}

// One tile: scores of `columns` blocks of 8 keys from key0 on, and what they add.  (Without `restrict`, which means
// nothing once it is inlined but a function that Oclgrind does not know.)
INLINED void pl_step(__global const STORAGE_T(Q)* q, const tensor_arg q_arg, __global const STORAGE_T(K)* k,
                     const tensor_arg k_arg,
#ifdef MASK_DTYPE
                     __global const STORAGE_T(MASK)* mask, const tensor_arg mask_arg, const idx_t mask_at,
#endif
#ifdef DROPOUT_SCALE
                     __global const uint* bits, const idx_t bits_at, const idx_t head,
#endif
                     const idx_t q_at, const idx_t k_at, const idx_t first, const idx_t queries, const idx_t key0,
                     const idx_t keys, const float scale, __local uint4* tiles, const tiles_place all_tiles,
                     const int stage, uint (*terms)[4], __local float* shared,
                     float top[MMA_ROWS][2], float total[MMA_ROWS][2], float sum[MMA_ROWS][V_BLOCKS][4],
                     const int columns) {
    float s[MMA_ROWS][MMA_COLUMNS][4];
    ALL_SUMS(i, j, columns, e) s[i][j][e] = 0.0f;
    pl_add_scores(AT_SLOT(all_tiles, Q_AT), terms, AT_SLOT(all_tiles, stage * STAGE_SLOTS), s, columns, K_STEPS,
                  K_PITCH);
#if !MMA_IS_EXACT
    float wrong = 0.0f;  // NaN if one of them is not finite
    ALL_SUMS(i, j, columns, e) wrong = fma(s[i][j][e], 0.0f, wrong);
    if (isnan(wrong)) {
        for (int one = 0; one < MMA_ROWS * columns * 4; ++one) {
            const idx_t query = first + MMA_ROW(one / (columns * 4), one % 4);
            const idx_t key = key0 + MMA_COLUMN(one / 4 % columns, one % 4);
            if (query >= queries || key >= keys) continue;
            const float score = product_of_rows(q + (q_at + query * Q_STRIDE(6)), k + (k_at + key * K_STRIDE(6)));
            ALL_SUMS(i, j, columns, e) {
                const int here = (i * columns + j) * 4 + e == one;
                s[i][j][e] = here && !isfinite(s[i][j][e]) ? score : s[i][j][e];
            }
        }
    }
#endif
#if !FOLDED
    ALL_SUMS(i, j, columns, e) s[i][j][e] = CAPPED(s[i][j][e] * scale);
#endif
#ifdef MASK_DTYPE
    ALL_SUMS(i, j, columns, e) {
        const idx_t query = first + MMA_ROW(i, e), key = key0 + MMA_COLUMN(j, e);
        s[i][j][e] = HIDDEN(query, key)  ? -INFINITY
                     : query >= queries ? 0.0f
                                        : WITH_MASK(s[i][j][e], query, key);
    }
#else
    if (key0 + TILE_N > keys || (CAUSAL && key0 + TILE_N > first + 1)) {
        const int left = (int)min(keys - key0, (idx_t)TILE_N), seen_by = (int)(first - key0);
        ALL_SUMS(i, j, columns, e) {
            const int column = MMA_COLUMN(j, e);
            if (column >= left || (CAUSAL && column > seen_by + MMA_ROW(i, e))) s[i][j][e] = -INFINITY;
        }
    }
#endif

    float highest[MMA_ROWS][2];
    ALL_ROWS(i, h) {
        highest[i][h] = -INFINITY;
        _Pragma("unroll") for (int j = 0; j < columns; ++j)
            highest[i][h] = fmax(highest[i][h], fmax(s[i][j][2 * h], s[i][j][2 * h + 1]));
    }
    pl_join(shared, highest, 1);
    ALL_ROWS(i, h) {
        // From rounded products on both sides: where nothing larger appears, `less` is 1.
        const float before = top[i][h];
        top[i][h] = fmax(before, FACTOR * highest[i][h]);
        const float base = top[i][h] == -INFINITY ? 0.0f : top[i][h];
        const float less = pl_power_of_2(before - base);
        float part = 0.0f;
        _Pragma("unroll") for (int j = 0; j < columns; ++j)
            _Pragma("unroll") for (int e = 2 * h; e < 2 * h + 2; ++e) {
                s[i][j][e] = pl_power_of_2(FOLDED ? fma(s[i][j][e], scale, -base) : s[i][j][e] - base);
                part += s[i][j][e];
            }
        total[i][h] = fma(total[i][h], less, part);
        _Pragma("unroll") for (int n = 0; n < V_BLOCKS; ++n)
            _Pragma("unroll") for (int e = 2 * h; e < 2 * h + 2; ++e) sum[i][n][e] *= less;
    }
#ifdef DROPOUT_SCALE
    DROP_BY_ROWS(s, head, first, key0, columns)
#endif
    pl_add_weighted(tiles, all_tiles, V_AT(stage), P_AT, s, sum[0], columns, V_BLOCKS, V_PITCH);
}
#ifdef MASK_DTYPE
#define MASK_ARGUMENTS mask, mask_arg, mask_at,
#else
#define MASK_ARGUMENTS
#endif
#ifdef DROPOUT_SCALE
#define DROPOUT_ARGUMENTS bits, bits_at, head,
#else
#define DROPOUT_ARGUMENTS
#endif
#define STEP(columns)                                                                                               \
    pl_step(q, q_arg, k, k_arg, MASK_ARGUMENTS DROPOUT_ARGUMENTS q_at, k_at, first, queries, key0, keys, scale,     \
            tiles, all_tiles, stage, terms[0], shared, top, total, sum, columns)

#if PAIRS
#define store_pair_f32(at, a, b) (*(__global float2*)(at) = (float2)(a, b))
#define store_pair_bf16(at, a, b) (*(__global ushort2*)(at) = float_to_bf16_2((float2)(a, b)))
#if NVIDIA_PTX
#define store_pair_f16(at, a, b) (*(__global uint*)(at) = pl_two_halves(a, b))
#else
#define store_pair_f16(at, a, b) vstorea_half2_rte((float2)(a, b), 0, at)
#endif
#define STORE_PAIR(at, a, b) PL_CAT(store_pair_, DST_DTYPE)(at, a, b)
#endif

__kernel MMA_ATTRIBUTES __attribute__((reqd_work_group_size(MMA_GROUP, 1, 1)))
void attention_mma(TENSOR_IN(Q, q), TENSOR_IN(K, k), TENSOR_IN(V, v),
#ifdef MASK_DTYPE
                   TENSOR_IN(MASK, mask),
#endif
                   DROPOUT_INPUT
#ifdef SINKS_DTYPE
                   TENSOR_IN(SINKS, sinks),
#endif
                   TENSOR_OUT(DST, dst), const float scale) {
    __local uint4 tiles[LOCAL_SLOTS] __attribute__((aligned(MMA_TILES_ALIGNMENT)));
    const int item = (int)get_local_id(0);
    const idx_t queries = DST_DIM(6), keys = K_DIM(6), tiles_m = (queries + TILE_M - 1) / TILE_M;
    idx_t head = (idx_t)get_group_id(0);
    const idx_t first = (tiles_m - 1 - head % tiles_m) * TILE_M;  // with CAUSAL those that take longest begin first
    head /= tiles_m;
    const idx_t i5 = head % DST_DIM(5), rest5 = head / DST_DIM(5), i4 = rest5 % DST_DIM(4), rest4 = rest5 / DST_DIM(4),
                i3 = rest4 % DST_DIM(3), rest3 = rest4 / DST_DIM(3), i2 = rest3 % DST_DIM(2),
                rest2 = rest3 / DST_DIM(2), i1 = rest2 % DST_DIM(1), i0 = rest2 / DST_DIM(1);
    const idx_t q_at = Q_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0), k_at = K_OFFSET(i0, i1, i2, i3, i4, i5 / GROUP, 0, 0),
                v_at = V_OFFSET(i0, i1, i2, i3, i4, i5 / GROUP, 0, 0),
                dst_at = DST_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0);
#ifdef MASK_DTYPE
    const idx_t mask_at = MASK_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0);
#endif
    const idx_t seen = CAUSAL && first + TILE_M < keys ? first + TILE_M : keys;
    const int steps = (int)((seen + TILE_N - 1) / TILE_N);
    const tiles_place all_tiles = TILES_PLACE(tiles);
#if NVIDIA_PTX
    __local float* shared = 0;
#else
    __local float* shared = (__local float*)(tiles + P_AT + TILE_M * P_PITCH);
#endif

    uint terms[MMA_ROWS][K_STEPS][4];  // of the queries; in plain OpenCL C they stay in local memory
    COPY_ROWS(Q_AT, K_PITCH, K_CHUNKS, q + (q_at + first * Q_STRIDE(6)), Q_STRIDE(6), TILE_M, queries - first, WIDTH)
#if NVIDIA_PTX
#if Q_ALONE
    COPY_COMMIT();
    COPY_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    pl_take_rows(AT_SLOT(all_tiles, Q_AT), terms[0], K_STEPS, K_PITCH);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#endif
    _Pragma("unroll") for (int stage = 0; stage < (STAGES == 1 ? 1 : STAGES - 1); ++stage) {
        if (stage < steps) COPY_TILE(stage, stage)
        COPY_COMMIT();
    }
#if NVIDIA_PTX
#if !Q_ALONE
    COPY_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    pl_take_rows(AT_SLOT(all_tiles, Q_AT), terms[0], K_STEPS, K_PITCH);
#endif
#endif

    float sum[MMA_ROWS][V_BLOCKS][4], top[MMA_ROWS][2], total[MMA_ROWS][2];
    ALL_SUMS(i, n, V_BLOCKS, e) sum[i][n][e] = 0.0f;
    ALL_ROWS(i, h) {
        top[i][h] = -INFINITY;
        total[i][h] = 0.0f;
    }
    for (int step = 0; step < steps; ++step) {
        const int stage = step % STAGES;
#if STAGES == 1
        if (step) {
            barrier(CLK_LOCAL_MEM_FENCE);
            COPY_TILE(step, 0)
            COPY_COMMIT();
        }
        COPY_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
#else
        COPY_WAIT((STAGES - 2));
        barrier(CLK_LOCAL_MEM_FENCE);
        if (step + STAGES - 1 < steps) COPY_TILE(step + STAGES - 1, (step + STAGES - 1) % STAGES)
        COPY_COMMIT();
#endif
        const idx_t key0 = step * (idx_t)TILE_N;
#if NVIDIA_PTX  // warps only copy where they have no queries, or none that sees this tile
        const idx_t row = first + PL_BLOCK_ROW(PL_WARP_M, 0);
        if (row >= queries || (CAUSAL && key0 >= row + TILE_M / WARPS_M)) continue;
#endif
        // The last tile has few keys where their number is a little more than a multiple of TILE_N.
        if (TILE_N > 16 && keys - key0 <= 16)
            STEP(2);
        else
            STEP(MMA_COLUMNS);
    }
    pl_join(shared, total, 0);

    ALL_ROWS(i, h) {
        const idx_t query = first + MMA_ROW(i, 2 * h);
        if (query >= queries) continue;
#ifdef SINKS_DTYPE
        const float sink =
            LOAD(SINKS, sinks, SINKS_OFFSET(i0, i1, i2, i3, i4, i5, query, 0)) * 1.44269504088896341f;  // log2(e)
        const float now = fmax(top[i][h], sink), base = now == -INFINITY ? 0.0f : now;
        const float less = pl_power_of_2(top[i][h] - base), all = fma(total[i][h], less, pl_power_of_2(sink - base)),
                    part = all == 0.0f ? 0.0f : less / all;
#else
        const float all = total[i][h], part = all == 0.0f ? 0.0f : 1.0f / all;
#endif
        const idx_t row = dst_at + query * DST_STRIDE(6);
        ulong wrong = 0;  // bit 2 n + e: column n * 8 + MMA_SUM_COLUMN(e)
        _Pragma("unroll") for (int n = 0; n < V_BLOCKS; ++n) {
            const int column = n * 8 + MMA_SUM_COLUMN(0);
            float y[2];
            _Pragma("unroll") for (int e = 0; e < 2; ++e) {
                y[e] = sum[i][n][2 * h + e] * part;
                if (!isfinite(sum[i][n][2 * h + e])) wrong |= (ulong)1 << (2 * n + e);
            }
#if PAIRS
            if (column < VALUES) STORE_PAIR(dst + (row + column), y[0], y[1]);
#else
            for (int e = 0; e < 2; ++e)
                if (column + e < VALUES) STORE(DST, dst, row + column + e, y[e]);
#endif
        }
        for (int one = 0; wrong != 0; ++one, wrong >>= 1) {
            const int column = one / 2 * 8 + MMA_SUM_COLUMN(one % 2);
            if (!(wrong & 1) || column >= VALUES || !isfinite(all)) continue;
            float again = 0.0f;
            for (idx_t key = 0; key < keys && !(CAUSAL && key > query); ++key) {
                float score =
                    scale * product_of_rows(q + (q_at + query * Q_STRIDE(6)), k + (k_at + key * K_STRIDE(6)));
                score = WITH_MASK(CAPPED(score), query, key);
                if (score == -INFINITY) continue;
                float weight = pl_power_of_2(score - top[i][h]);
#ifdef DROPOUT_SCALE
                weight *= KEPT(WEIGHTS_AT(head, query), key);
#endif
                again = fma(weight, LOAD(V, v, v_at + key * V_STRIDE(6) + column), again);
            }
            STORE(DST, dst, row + column, all == 0.0f ? 0.0f : again * part);
        }
    }
}
