// Gradients of scaled dot product attention by tiles, on matrix units; neither scores nor weights are ever written.
//
//   s[i, j] = scale * (sum over e of q[h, i, e] * k[h, j, e]) + mask[h, i, j]
//   p[i, j] = exp(s[i, j] - top[i]) / total[i]
//   g[i, j] = sum over c of grad[h, i, c] * v[h, j, c],   d[i, j] = scale * p[i, j] * (g[i, j] - mean[i])
//   top[i] = max over j of s[i, j],   total[i] = sum over j of exp(s[i, j] - top[i]),
//   mean[i] = sum over j of p[i, j] * g[i, j]
//   dq[h, i, e] = sum over j of d[i, j] * k[h, j, e],   dk[h, j, e] = sum over i of d[i, j] * q[h, i, e],
//   dv[h, j, c] = sum over i of p[i, j] * grad[h, i, c]
//
// With dropout (attention/dropout.clh) g and, in dv, p are multiplied by its factors.
//
// PART names what a launch computes of these: 0 top, 1 / total and mean, three of four numbers for each query in
// `stats`, as in attention_backward_rows.cl; 1 dq; 2 dk and dv. Scores are computed anew by each (T. Dao,
// FlashAttention-2, arXiv 2307.08691), and no two work-groups add to the same sum, so that results are the same bits in
// every run.
//
// Tensors: Q, K, V, GRAD and the gradients of MATRIX_DTYPE as rows (common/rows.clh: eight dimensions, index 6 counts
// queries or keys, 7 their columns, which lie side by side; those before name the head), any strides. MASK alike,
// with strides of 0 where it is repeated. With GROUP, k and v have one head for GROUP of q, whose parts of dk and dv
// are summed one after another. WIDTH: columns of Q and K, VALUES: of V and GRAD. PIECES 1: all rows begin at
// multiples of 16 bytes and are as long. With SOFTCAP, the scaled product x is SOFTCAP * tanh(x / SOFTCAP) before the
// mask. `scale`: times log2(e), exponents are of 2; `factor`: the scale of d.
//
// A work-group takes TILE_M rows of one head, queries or, for PART 2, keys, each warp TILE_M / WARPS_M of them, and
// goes through the others, the columns, TILE_N at a time. Two products give s and g of a tile, in the registers in
// which p and d are then left factors of the products that follow (attention/heads.clh). A query that sees no key has
// top infinity, so that its weights are 0.
//
// Precision as in attention_mma.cl; of 16 bits, p and d without the scale are rounded to MATRIX_DTYPE.
#ifndef PART
#define PART 2  // 0: stats; 1: dq; 2: dk and dv
#endif
#ifndef TILE_M
#define TILE_M 32  // rows of a work-group: 32, 64, 128
#endif
#ifndef TILE_N
#define TILE_N 32  // columns at a time: 16, 32, 64
#endif
#ifndef WARPS_M
#define WARPS_M 2  // warps, each of a multiple of 16 rows: 1, 2, 4, 8
#endif
#ifndef STAGES
#define STAGES 1  // tiles of columns in local memory at a time: 1, 2
#endif
#ifndef TERMS_HELD
#define TERMS_HELD 0  // 1: rows stay in registers, on NVIDIA's unit: 0, 1
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
#ifndef PIECES
#define PIECES 0  // 1: rows are whole pieces of 16 bytes
#endif
#ifndef PAIRS
#define PAIRS 0  // 1: even columns of the gradients lie at even places
#endif
#include "attention/backward.clh"
#include "attention/dropout.clh"
#include "attention/heads.clh"
#ifndef Q_DTYPE  // on its own: f32, plain matrices
#define Q_DTYPE MATRIX_DTYPE
#define Q_OFFSET(a, b, c, d, e, f, g, h) (q_arg.offset + (f)*q_arg.stride[5])
#define Q_STRIDE(i) PLAIN_STRIDE(q, i)
#define Q_DIM(i) PLAIN_DIM(q, i)
#define K_DTYPE MATRIX_DTYPE
#define K_OFFSET(a, b, c, d, e, f, g, h) (k_arg.offset + (f)*k_arg.stride[5])
#define K_STRIDE(i) PLAIN_STRIDE(k, i)
#define K_DIM(i) PLAIN_DIM(k, i)
#define V_DTYPE MATRIX_DTYPE
#define V_OFFSET(a, b, c, d, e, f, g, h) (v_arg.offset + (f)*v_arg.stride[5])
#define V_STRIDE(i) PLAIN_STRIDE(v, i)
#define GRAD_DTYPE MATRIX_DTYPE
#define GRAD_OFFSET(a, b, c, d, e, f, g, h) (grad_arg.offset + (f)*grad_arg.stride[5])
#define GRAD_STRIDE(i) PLAIN_STRIDE(grad, i)
#define DQ_OFFSET(a, b, c, d, e, f, g, h) (dq_arg.offset + (f)*dq_arg.stride[5])
#define DQ_STRIDE(i) PLAIN_STRIDE(dq, i)
#define DK_OFFSET(a, b, c, d, e, f, g, h) (dk_arg.offset + (f)*dk_arg.stride[5])
#define DK_STRIDE(i) PLAIN_STRIDE(dk, i)
#define DV_OFFSET(a, b, c, d, e, f, g, h) (dv_arg.offset + (f)*dv_arg.stride[5])
#define DV_STRIDE(i) PLAIN_STRIDE(dv, i)
#endif
#ifndef DQ_DTYPE
#define DQ_DTYPE MATRIX_DTYPE
#endif
#ifndef DK_DTYPE
#define DK_DTYPE MATRIX_DTYPE
#define DV_DTYPE MATRIX_DTYPE
#endif

#define NO_QUERY (float4)(INFINITY, 0.0f, 0.0f, 0.0f)  // stats of one that sees no key
#define W_PITCH ROW_PITCH(WIDTH)
#define W_STEPS ROW_STEPS(WIDTH)
#define W_BLOCKS ROW_BLOCKS(WIDTH)
#define V_PITCH ROW_PITCH(VALUES)
#define V_STEPS ROW_STEPS(VALUES)
#define V_BLOCKS ROW_BLOCKS(VALUES)
// Local memory: the rows by WIDTH and by VALUES, then a stage of columns alike, or two.
#define ROWS_BY_VALUES (TILE_M * W_PITCH)
#define COLUMNS_AT(stage) (TILE_M * (W_PITCH + V_PITCH) + (stage)*TILE_N * (W_PITCH + V_PITCH))
#define COLUMNS_BY_VALUES(stage) (COLUMNS_AT(stage) + TILE_N * W_PITCH)
#define P_AT COLUMNS_AT(STAGES)
#if NVIDIA_PTX
#define LOCAL_SLOTS P_AT
#define HELD_STEPS(steps) (TERMS_HELD ? MMA_ROWS * (steps) : 1)
#else
#define LOCAL_SLOTS (P_AT + TILE_M * P_PITCH + TILE_M)  // what rows share lies behind the weights
#define HELD_STEPS(steps) 1
#endif
#define COPY_COLUMNS(number, stage)                                                                               \
    {                                                                                                             \
        const idx_t at_column = (number) * (idx_t)TILE_N;                                                         \
        COPY_ROWS(COLUMNS_AT(stage), W_PITCH, ROW_CHUNKS(WIDTH), columns_w + at_column * columns_w_step,          \
                  columns_w_step, TILE_N, columns - at_column, WIDTH)                                             \
        COPY_ROWS(COLUMNS_BY_VALUES(stage), V_PITCH, ROW_CHUNKS(VALUES), columns_v + at_column * columns_v_step,  \
                  columns_v_step, TILE_N, columns - at_column, VALUES)                                            \
    }

#if PAIRS
#define store_pair_f32(at, a, b) (*(__global float2*)(at) = (float2)(a, b))
#define store_pair_bf16(at, a, b) (*(__global ushort2*)(at) = float_to_bf16_2((float2)(a, b)))
#if NVIDIA_PTX && MMA_BITS == 16
#define store_pair_f16(at, a, b) (*(__global uint*)(at) = pl_pair(a, b))
#else
#define store_pair_f16(at, a, b) vstorea_half2_rte((float2)(a, b), 0, at)
#endif
#define STORE_PAIR(at, a, b) PL_CAT(store_pair_, MATRIX_DTYPE)(at, a, b)
#endif
// Rows of sums times `by`, `step` elements apart from `to` on; `left` rows exist.
INLINED void pl_store_rows(__global STORAGE_T(MATRIX)* to, const idx_t step, const idx_t left, float (*sum)[4],
                           const int blocks, const int elements, const float by) {
    ALL_ROWS(i, h) {
        const int row = MMA_ROW(i, 2 * h);
        if (row >= left) continue;
        __global STORAGE_T(MATRIX)* at = to + row * step;
        _Pragma("unroll") for (int n = 0; n < blocks; ++n) {
            const int element = n * 8 + MMA_SUM_COLUMN(0);
            const float a = sum[i * blocks + n][2 * h] * by, b = sum[i * blocks + n][2 * h + 1] * by;
#if PAIRS
            if (element < elements) STORE_PAIR(at + element, a, b);
#else
            if (element < elements) STORE(MATRIX, at, element, a);
            if (element + 1 < elements) STORE(MATRIX, at, element + 1, b);
#endif
        }
    }
}

__kernel MMA_ATTRIBUTES __attribute__((reqd_work_group_size(MMA_GROUP, 1, 1)))
void attention_backward_mma(TENSOR_IN(Q, q), TENSOR_IN(K, k), TENSOR_IN(V, v), TENSOR_IN(GRAD, grad),
#ifdef MASK_DTYPE
                            TENSOR_IN(MASK, mask),
#endif
#if PART == 0
                            DROPOUT_INPUT __global float4* restrict stats,
#elif PART == 1
                            DROPOUT_INPUT __global const float4* restrict stats, TENSOR_OUT(DQ, dq),
#else
                            DROPOUT_INPUT __global const float4* restrict stats, TENSOR_OUT(DK, dk),
                            TENSOR_OUT(DV, dv),
#endif
                            const float scale, const float factor) {
    __local uint4 tiles[LOCAL_SLOTS] __attribute__((aligned(MMA_TILES_ALIGNMENT)));
    const tiles_place all_tiles = TILES_PLACE(tiles);
    const int item = (int)get_local_id(0);
    const idx_t queries = Q_DIM(6), keys = K_DIM(6);
    const idx_t rows = PART == 2 ? keys : queries, columns = PART == 2 ? queries : keys;
    const idx_t tiles_m = (rows + TILE_M - 1) / TILE_M;
    const idx_t head = (idx_t)get_group_id(0) / tiles_m, tile = (idx_t)get_group_id(0) % tiles_m;
    // Those that take longest begin first.
    const idx_t first = (CAUSAL && PART != 2 ? tiles_m - 1 - tile : tile) * TILE_M;
    const idx_t heads5 = PART == 2 ? K_DIM(5) : Q_DIM(5);
    const idx_t i5 = head % heads5, rest5 = head / heads5, i4 = rest5 % K_DIM(4), rest4 = rest5 / K_DIM(4),
                i3 = rest4 % K_DIM(3), rest3 = rest4 / K_DIM(3), i2 = rest3 % K_DIM(2), rest2 = rest3 / K_DIM(2),
                i1 = rest2 % K_DIM(1), i0 = rest2 / K_DIM(1);
#if PART == 2
    const idx_t k5 = i5;
#else
    const idx_t k5 = i5 / GROUP;
#endif
    __global const STORAGE_T(MATRIX)* of_keys = k + K_OFFSET(i0, i1, i2, i3, i4, k5, 0, 0);
    __global const STORAGE_T(MATRIX)* of_values = v + V_OFFSET(i0, i1, i2, i3, i4, k5, 0, 0);
#if NVIDIA_PTX
    __local float* shared = 0;
#else
    __local float* shared = (__local float*)(tiles + P_AT + TILE_M * P_PITCH);
#endif

#if PART != 0
    float sum_w[MMA_ROWS * W_BLOCKS][4];
    ALL_SUMS(i, n, W_BLOCKS, e) sum_w[i * W_BLOCKS + n][e] = 0.0f;
#endif
#if PART == 2
    float sum_v[MMA_ROWS * V_BLOCKS][4];
    ALL_SUMS(i, n, V_BLOCKS, e) sum_v[i * V_BLOCKS + n][e] = 0.0f;
#endif
    uint terms_w[HELD_STEPS(W_STEPS)][4], terms_v[HELD_STEPS(V_STEPS)][4];

    for (idx_t shared_by = 0; shared_by < (PART == 2 ? GROUP : 1); ++shared_by) {
        const idx_t q5 = PART == 2 ? i5 * GROUP + shared_by : i5;
        const idx_t q_head = PART == 2 ? head * GROUP + shared_by : head;
        __global const STORAGE_T(MATRIX)* of_queries = q + Q_OFFSET(i0, i1, i2, i3, i4, q5, 0, 0);
        __global const STORAGE_T(MATRIX)* of_grad = grad + GRAD_OFFSET(i0, i1, i2, i3, i4, q5, 0, 0);
#ifdef MASK_DTYPE
        const idx_t mask_at = MASK_OFFSET(i0, i1, i2, i3, i4, q5, 0, 0);
#endif
#if PART == 2
        __global const STORAGE_T(MATRIX)* columns_w = of_queries;
        __global const STORAGE_T(MATRIX)* columns_v = of_grad;
        const idx_t columns_w_step = Q_STRIDE(6), columns_v_step = GRAD_STRIDE(6);
        const int step0 = CAUSAL ? (int)(min(first, columns) / TILE_N) : 0;
        const int steps = (int)((columns + TILE_N - 1) / TILE_N);
        if (shared_by == 0) {
            COPY_ROWS(0, W_PITCH, ROW_CHUNKS(WIDTH), of_keys + first * K_STRIDE(6), K_STRIDE(6), TILE_M, rows - first,
                      WIDTH)
            COPY_ROWS(ROWS_BY_VALUES, V_PITCH, ROW_CHUNKS(VALUES), of_values + first * V_STRIDE(6), V_STRIDE(6),
                      TILE_M, rows - first, VALUES)
        }
#else
        __global const STORAGE_T(MATRIX)* columns_w = of_keys;
        __global const STORAGE_T(MATRIX)* columns_v = of_values;
        const idx_t columns_w_step = K_STRIDE(6), columns_v_step = V_STRIDE(6);
        const idx_t seen = CAUSAL && first + TILE_M < keys ? first + TILE_M : keys;
        const int step0 = 0, steps = (int)((seen + TILE_N - 1) / TILE_N);
        COPY_ROWS(0, W_PITCH, ROW_CHUNKS(WIDTH), of_queries + first * Q_STRIDE(6), Q_STRIDE(6), TILE_M, rows - first,
                  WIDTH)
        COPY_ROWS(ROWS_BY_VALUES, V_PITCH, ROW_CHUNKS(VALUES), of_grad + first * GRAD_STRIDE(6), GRAD_STRIDE(6),
                  TILE_M, rows - first, VALUES)
#endif
#if PART != 2
        // Of each row that this work-item has sums of: its stats (`total`: 1 / total), or what they are so far.
        float top[MMA_ROWS][2], total[MMA_ROWS][2], mean[MMA_ROWS][2];
        ALL_ROWS(i, h) {
#if PART == 0
            top[i][h] = -INFINITY;
            total[i][h] = mean[i][h] = 0.0f;
#else
            const idx_t query = first + MMA_ROW(i, 2 * h);
            const float4 of_query = query < queries ? stats[q_head * queries + query] : NO_QUERY;
            top[i][h] = of_query.s0;
            total[i][h] = of_query.s1;
            mean[i][h] = of_query.s2;
#endif
        }
#endif
        if (shared_by) barrier(CLK_LOCAL_MEM_FENCE);  // the columns of the head before were read
        if (step0 < steps) COPY_COLUMNS(step0, 0)
        COPY_COMMIT();
#if NVIDIA_PTX && TERMS_HELD
        if (shared_by == 0) {
            COPY_WAIT(0);
            barrier(CLK_LOCAL_MEM_FENCE);
            pl_take_rows(AT_SLOT(all_tiles, 0), terms_w, W_STEPS, W_PITCH);
            pl_take_rows(AT_SLOT(all_tiles, ROWS_BY_VALUES), terms_v, V_STEPS, V_PITCH);
        }
#endif
        for (int step = step0; step < steps; ++step) {
            const int stage = (step - step0) % STAGES;
#if STAGES == 1
            if (step > step0) {
                barrier(CLK_LOCAL_MEM_FENCE);
                COPY_COLUMNS(step, 0)
                COPY_COMMIT();
            }
            COPY_WAIT(0);
            barrier(CLK_LOCAL_MEM_FENCE);
#else
            COPY_WAIT(0);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (step + 1 < steps) COPY_COLUMNS(step + 1, 1 - stage)
            COPY_COMMIT();
#endif
            const idx_t column0 = step * (idx_t)TILE_N;
#if NVIDIA_PTX  // warps only copy where they have no rows, or none that sees this tile
            const idx_t row = first + PL_BLOCK_ROW(PL_WARP_M, 0);
            if (row >= rows) continue;
            if (CAUSAL && (PART == 2 ? column0 + TILE_N <= row : column0 >= row + TILE_M / WARPS_M)) continue;
#endif
            float s[MMA_ROWS][MMA_COLUMNS][4], g[MMA_ROWS][MMA_COLUMNS][4];
            ALL_SUMS(i, j, MMA_COLUMNS, e) s[i][j][e] = g[i][j][e] = 0.0f;
            pl_add_scores(AT_SLOT(all_tiles, 0), terms_w, AT_SLOT(all_tiles, COLUMNS_AT(stage)), s, MMA_COLUMNS,
                          W_STEPS, W_PITCH);
            pl_add_scores(AT_SLOT(all_tiles, ROWS_BY_VALUES), terms_v, AT_SLOT(all_tiles, COLUMNS_BY_VALUES(stage)), g,
                          MMA_COLUMNS, V_STEPS, V_PITCH);
#ifdef DROPOUT_SCALE
#if PART == 2
            ulong kept = 0;  // bit (i * MMA_COLUMNS + j) * 4 + e
            ALL_SUMS(i, j, MMA_COLUMNS, e) {
                const float by = KEPT(WEIGHTS_AT(q_head, column0 + MMA_COLUMN(j, e)), first + MMA_ROW(i, e));
                g[i][j][e] *= by;
                if (by != 0.0f) kept |= (ulong)1 << ((i * MMA_COLUMNS + j) * 4 + e);
            }
#else
            DROP_BY_ROWS(g, q_head, first, column0, MMA_COLUMNS)
#endif
#endif
#ifdef SOFTCAP
            float slope[MMA_ROWS][MMA_COLUMNS][4];
            ALL_SUMS(i, j, MMA_COLUMNS, e) {
                const float bent = tanh(s[i][j][e] * scale / (SOFTCAP * PL_LOG2_E));
                slope[i][j][e] = 1.0f - bent * bent;
                s[i][j][e] = SOFTCAP * PL_LOG2_E * bent;
            }
#else
            ALL_SUMS(i, j, MMA_COLUMNS, e) s[i][j][e] *= scale;
#endif
#ifdef MASK_DTYPE
            const int whole = 0;
#else
            const int whole = column0 + TILE_N <= columns &&
                              !(CAUSAL && (PART == 2 ? column0 < first + TILE_M - 1 : column0 + TILE_N > first + 1));
#endif
            if (!whole) {
                ALL_SUMS(i, j, MMA_COLUMNS, e) {
                    const idx_t row_of = first + MMA_ROW(i, e), column_of = column0 + MMA_COLUMN(j, e);
                    const idx_t query = PART == 2 ? column_of : row_of, key = PART == 2 ? row_of : column_of;
                    // Queries that do not exist are rows that are not stored; as columns they must add nothing.
                    s[i][j][e] = HIDDEN(query, key)   ? -INFINITY
                                 : query < queries ? WITH_MASK(s[i][j][e], query, key)
                                 : PART == 2       ? -INFINITY
                                                   : 0.0f;
                }
            }
#if PART == 0
            float highest[MMA_ROWS][2];
            ALL_ROWS(i, h) {
                highest[i][h] = -INFINITY;
                _Pragma("unroll") for (int j = 0; j < MMA_COLUMNS; ++j)
                    highest[i][h] = fmax(highest[i][h], fmax(s[i][j][2 * h], s[i][j][2 * h + 1]));
            }
            pl_join(shared, highest, 1);
            ALL_ROWS(i, h) {
                const float before = top[i][h];
                top[i][h] = fmax(before, highest[i][h]);
                const float base = top[i][h] == -INFINITY ? 0.0f : top[i][h];
                const float less = pl_power_of_2(before - base);
                float part = 0.0f, of_grads = 0.0f;
                _Pragma("unroll") for (int j = 0; j < MMA_COLUMNS; ++j)
                    _Pragma("unroll") for (int e = 2 * h; e < 2 * h + 2; ++e) {
                        const float weight = pl_power_of_2(s[i][j][e] - base);
                        part += weight;
                        of_grads = fma(weight, g[i][j][e], of_grads);
                    }
                total[i][h] = fma(total[i][h], less, part);
                mean[i][h] = fma(mean[i][h], less, of_grads);
            }
#else
#if PART == 1
            ALL_SUMS(i, j, MMA_COLUMNS, e) {
                s[i][j][e] = pl_power_of_2(BELOW(s[i][j][e], top[i][e >> 1])) * total[i][e >> 1];
                g[i][j][e] = s[i][j][e] * (g[i][j][e] - mean[i][e >> 1]);
            }
#else
            _Pragma("unroll") for (int j = 0; j < MMA_COLUMNS; ++j)
                _Pragma("unroll") for (int e = 0; e < 2; ++e) {
                    const idx_t query = column0 + MMA_COLUMN(j, e);
                    const float4 of_query = query < queries ? stats[q_head * queries + query] : NO_QUERY;
                    ALL_ROWS(i, h) {
                        const float weight = pl_power_of_2(BELOW(s[i][j][2 * h + e], of_query.s0)) * of_query.s1;
                        s[i][j][2 * h + e] = weight;
                        g[i][j][2 * h + e] = weight * (g[i][j][2 * h + e] - of_query.s2);
                    }
                }
#ifdef DROPOUT_SCALE
            ALL_SUMS(i, j, MMA_COLUMNS, e)
                s[i][j][e] *= kept >> ((i * MMA_COLUMNS + j) * 4 + e) & 1 ? DROPOUT_SCALE : 0.0f;
#endif
            pl_add_weighted(tiles, all_tiles, COLUMNS_BY_VALUES(stage), P_AT, s, sum_v, MMA_COLUMNS, V_BLOCKS, V_PITCH);
#endif
#ifdef SOFTCAP
            ALL_SUMS(i, j, MMA_COLUMNS, e) g[i][j][e] *= slope[i][j][e];
#endif
            pl_add_weighted(tiles, all_tiles, COLUMNS_AT(stage), P_AT, g, sum_w, MMA_COLUMNS, W_BLOCKS, W_PITCH);
#endif
        }
#if PART == 0
        pl_join(shared, total, 0);
        pl_join(shared, mean, 0);
        ALL_ROWS(i, h) {
            const idx_t query = first + MMA_ROW(i, 2 * h);
            const int none = total[i][h] == 0.0f;
            if (query < queries && (PL_LANE & 3) == 0)
                stats[q_head * queries + query] =
                    none ? NO_QUERY : (float4)(top[i][h], 1.0f / total[i][h], mean[i][h] / total[i][h], 0.0f);
        }
#endif
    }
#if PART == 1
    pl_store_rows(dq + (DQ_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0) + first * DQ_STRIDE(6)), DQ_STRIDE(6), rows - first,
                  sum_w, W_BLOCKS, WIDTH, factor);
#elif PART == 2
    pl_store_rows(dk + (DK_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0) + first * DK_STRIDE(6)), DK_STRIDE(6), rows - first,
                  sum_w, W_BLOCKS, WIDTH, factor);
    pl_store_rows(dv + (DV_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0) + first * DV_STRIDE(6)), DV_STRIDE(6), rows - first,
                  sum_v, V_BLOCKS, VALUES, 1.0f);
#endif
}
