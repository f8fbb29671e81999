// Gradients of scaled dot product attention, heads of any width; neither scores nor weights are ever written.
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
// With GROUP, k and v have one head for GROUP of q: h there is h / GROUP.  With SOFTCAP, the scaled product x is
// SOFTCAP * tanh(x / SOFTCAP) before the mask.
// Tensors: Q, K, V, GRAD, DQ, DK and DV as rows (common/rows.clh, the last dimension last: index 6 counts queries or
// keys), columns side by side, any other strides.  MASK alike, with strides of 0 where it is repeated.  WIDTH: columns
// of Q and K, VALUES: of V and GRAD.
// attention_backward_stats: a work-item finds top, 1 / total and mean of one query, three of four numbers in `stats`:
// infinity, 0 and 0 where the query sees no key.  Top and total stay apart, since a logarithm added to the scores of a
// query all of whose keys have a mask of -1e9 would be rounded away.  attention_backward_rows: a work-item computes one
// row of dq.  attention_backward_columns: one row of dk and of dv.  Each keeps PIECE sums at a time and computes the
// scores of its row anew for each piece.
#include "attention/backward.clh"
#include "attention/dropout.clh"
#include "common/rows.clh"

#ifndef PIECE
#define PIECE 16  // columns of a gradient a work-item keeps sums of: 16, 64
#endif
#ifndef Q_DTYPE  // on its own: f32, plain matrices
#define Q_DTYPE f32
#define Q_OFFSET(a, b, c, d, e, f, g, h) (q_arg.offset + (f)*q_arg.stride[5])
#define Q_STRIDE(i) PLAIN_STRIDE(q, i)
#define Q_DIM(i) PLAIN_DIM(q, i)
#define K_DTYPE f32
#define K_OFFSET(a, b, c, d, e, f, g, h) (k_arg.offset + (f)*k_arg.stride[5])
#define K_STRIDE(i) PLAIN_STRIDE(k, i)
#define K_DIM(i) PLAIN_DIM(k, i)
#define V_DTYPE f32
#define V_OFFSET(a, b, c, d, e, f, g, h) (v_arg.offset + (f)*v_arg.stride[5])
#define V_STRIDE(i) PLAIN_STRIDE(v, i)
#define GRAD_DTYPE f32
#define GRAD_OFFSET(a, b, c, d, e, f, g, h) (grad_arg.offset + (f)*grad_arg.stride[5])
#define GRAD_STRIDE(i) PLAIN_STRIDE(grad, i)
#define DQ_DTYPE f32
#define DQ_OFFSET(a, b, c, d, e, f, g, h) (dq_arg.offset + (f)*dq_arg.stride[5] + (g)*dq_arg.stride[6] + (h))
#define DK_DTYPE f32
#define DK_OFFSET(a, b, c, d, e, f, g, h) (dk_arg.offset + (f)*dk_arg.stride[5] + (g)*dk_arg.stride[6] + (h))
#define DV_DTYPE f32
#define DV_OFFSET(a, b, c, d, e, f, g, h) (dv_arg.offset + (f)*dv_arg.stride[5] + (g)*dv_arg.stride[6] + (h))
#endif
#ifndef WIDTH
#define WIDTH 64
#define VALUES 64
#endif
#ifndef CAUSAL
#define CAUSAL 0  // 1: query i sees keys 0 to i
#endif
#ifndef SHARED_BY
#define SHARED_BY 1  // heads (index 5) of q that share one of k and v
#endif

#ifdef MASK_DTYPE
#define MASK_ARGUMENT TENSOR_IN(MASK, mask),
#define MASK_ROW(i5) const idx_t mask_at = MASK_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0);
#define MASK_PLACE(query, key) (mask_at + (query)*MASK_STRIDE(6) + (key)*MASK_STRIDE(7))
#if MASK_IS_BOOL
#define WITH_MASK(x, query, key) (LOAD(MASK, mask, MASK_PLACE(query, key)) ? (x) : -INFINITY)
#else
#define WITH_MASK(x, query, key) ((x) + LOAD(MASK, mask, MASK_PLACE(query, key)))
#endif
#else
#define MASK_ARGUMENT
#define MASK_ROW(i5)
#define WITH_MASK(x, query, key) (x)
#endif

// `score`, with the mask, and its `slope` by the scaled product.
#ifdef SOFTCAP
#define SCORE(score, slope, q_row, k_row, query, key)                               \
    const float bent_ = tanh(scale * DOT(q, q_row, k, k_row, WIDTH) / SOFTCAP); \
    const float score = WITH_MASK(SOFTCAP * bent_, query, key), slope = 1.0f - bent_ * bent_;
#else
#define SCORE(score, slope, q_row, k_row, query, key)                               \
    const float score = WITH_MASK(scale * DOT(q, q_row, k, k_row, WIDTH), query, key), slope = 1.0f;
#endif
// Sixteen columns of a row of `count` from column `first` on, zeros behind the last one.
static inline float16 pl_columns(__global const STORAGE_T(Q)* row, const int first, const int count) {
    if (first + 16 <= count) return LOADV(Q, 16, row, first);
    float part[16];
    for (int e = 0; e < 16; ++e) part[e] = first + e < count ? LOAD(Q, row, first + e) : 0.0f;
    return vload16(0, part);
}
static inline float pl_dot(__global const STORAGE_T(Q)* a, __global const STORAGE_T(Q)* b, const int count) {
    float16 sums = (float16)(0.0f);
    for (int e = 0; e < count; e += 16) sums = fma(pl_columns(a, e, count), pl_columns(b, e, count), sums);
    const float8 eight = sums.lo + sums.hi;
    const float4 four = eight.lo + eight.hi;
    return (four.s0 + four.s2) + (four.s1 + four.s3);
}
#define DOT(a, a_row, b, b_row, count) pl_dot(a + (a_row), b + (b_row), count)

// Columns from `first` on of a row of `count` at place `at`: the sums times `by`.
#define STORE_PIECE(T, to, at, sums, count, by)                                              \
    {                                                                                        \
        const idx_t row_ = at;                                                               \
        for (int e = 0; e < PIECE; e += 16) {                                                \
            float part_[16];                                                                 \
            vstore16(sums[e / 16] * by, 0, part_);                                           \
            for (int c = 0; c < 16; ++c)                                                     \
                if (first + e + c < count) STORE(T, to, row_ + first + e + c, part_[c]);     \
        }                                                                                    \
    }

// What a weight is multiplied by in dropout.
#ifdef DROPOUT_SCALE
#define KEPT_OF(head, query, key) KEPT(WEIGHTS_AT(head, query), key)
#else
#define KEPT_OF(head, query, key) 1.0f
#endif

// The head of number `head`, of `count` heads of index 5 in each of those before.
#define HEAD_INDICES(head, count)                                                                                    \
    const idx_t i5 = (head) % (count), rest5 = (head) / (count), i4 = rest5 % K_DIM(4), rest4 = rest5 / K_DIM(4),     \
                i3 = rest4 % K_DIM(3), rest3 = rest4 / K_DIM(3), i2 = rest3 % K_DIM(2), rest2 = rest3 / K_DIM(2),    \
                i1 = rest2 % K_DIM(1), i0 = rest2 / K_DIM(1);
#define QUERY_ROWS(i5)                                                          \
    const idx_t q_at = Q_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0);                  \
    const idx_t grad_at = GRAD_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0);            \
    MASK_ROW(i5)
#define KEY_ROWS(i5)                                                            \
    const idx_t k_at = K_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0);                  \
    const idx_t v_at = V_OFFSET(i0, i1, i2, i3, i4, i5, 0, 0);

__kernel void attention_backward_stats(TENSOR_IN(Q, q), TENSOR_IN(K, k), TENSOR_IN(V, v), TENSOR_IN(GRAD, grad),
                                       MASK_ARGUMENT DROPOUT_INPUT __global float4* restrict stats, const float scale,
                                       const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0);
    if (row >= rows) return;
    const idx_t head = row / Q_DIM(6), query = row % Q_DIM(6), queries = Q_DIM(6), keys = K_DIM(6);
    HEAD_INDICES(head, Q_DIM(5))
    QUERY_ROWS(i5)
    KEY_ROWS(i5 / SHARED_BY)
    float top = -INFINITY, total = 0.0f, mean = 0.0f;
    for (idx_t key = 0; key < keys && !(CAUSAL && key > query); ++key) {
        SCORE(score, slope, q_at + query * Q_STRIDE(6), k_at + key * K_STRIDE(6), query, key)
        if (score == -INFINITY) continue;
        const float grad_of =
            DOT(grad, grad_at + query * GRAD_STRIDE(6), v, v_at + key * V_STRIDE(6), VALUES) * KEPT_OF(head, query, key);
        if (score > top) {
            const float less = exp(top - score);
            total *= less;
            mean *= less;
            top = score;
        }
        const float weight = exp(score - top);
        total += weight;
        mean = fma(weight, grad_of, mean);
    }
    stats[row] = total == 0.0f ? (float4)(INFINITY, 0.0f, 0.0f, 0.0f)
                               : (float4)(top, 1.0f / total, mean / total, 0.0f);
}

__kernel void attention_backward_rows(TENSOR_IN(Q, q), TENSOR_IN(K, k), TENSOR_IN(V, v), TENSOR_IN(GRAD, grad),
                                      MASK_ARGUMENT DROPOUT_INPUT __global const float4* restrict stats, TENSOR_OUT(DQ, dq),
                                      const float scale, const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0);
    if (row >= rows) return;
    const idx_t head = row / Q_DIM(6), query = row % Q_DIM(6), queries = Q_DIM(6), keys = K_DIM(6);
    HEAD_INDICES(head, Q_DIM(5))
    QUERY_ROWS(i5)
    KEY_ROWS(i5 / SHARED_BY)
    const float4 of_query = stats[row];
    for (int first = 0; first < WIDTH; first += PIECE) {
        float16 sums[PIECE / 16];
        for (int e = 0; e < PIECE / 16; ++e) sums[e] = (float16)(0.0f);
        for (idx_t key = 0; key < keys && !(CAUSAL && key > query); ++key) {
            SCORE(score, slope, q_at + query * Q_STRIDE(6), k_at + key * K_STRIDE(6), query, key)
            const float weight = exp(BELOW(score, of_query.s0)) * of_query.s1;
            const float grad_of =
                DOT(grad, grad_at + query * GRAD_STRIDE(6), v, v_at + key * V_STRIDE(6), VALUES) *
                KEPT_OF(head, query, key);
            const float of_score = weight * (grad_of - of_query.s2) * slope;
            __global const STORAGE_T(Q)* k_row = k + (k_at + key * K_STRIDE(6));
            for (int e = 0; e < PIECE / 16; ++e)
                if (first + e * 16 < WIDTH) sums[e] += of_score * pl_columns(k_row, first + e * 16, WIDTH);
        }
        STORE_PIECE(DQ, dq, DQ_OFFSET(i0, i1, i2, i3, i4, i5, query, 0), sums, WIDTH, scale)
    }
}

__kernel void attention_backward_columns(TENSOR_IN(Q, q), TENSOR_IN(K, k), TENSOR_IN(V, v), TENSOR_IN(GRAD, grad),
                                         MASK_ARGUMENT DROPOUT_INPUT __global const float4* restrict stats, TENSOR_OUT(DK, dk),
                                         TENSOR_OUT(DV, dv), const float scale, const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0);
    if (row >= rows) return;
    const idx_t head = row / K_DIM(6), key = row % K_DIM(6), queries = Q_DIM(6), keys = K_DIM(6);
    HEAD_INDICES(head, K_DIM(5))
    KEY_ROWS(i5)
    for (int first = 0; first < (WIDTH > VALUES ? WIDTH : VALUES); first += PIECE) {
        float16 of_key[PIECE / 16], of_value[PIECE / 16];
        for (int e = 0; e < PIECE / 16; ++e) of_key[e] = of_value[e] = (float16)(0.0f);
        for (idx_t one = 0; one < SHARED_BY; ++one) {
            QUERY_ROWS(i5 * SHARED_BY + one)
            for (idx_t query = CAUSAL ? key : 0; query < queries; ++query) {
                SCORE(score, slope, q_at + query * Q_STRIDE(6), k_at + key * K_STRIDE(6), query, key)
                const float4 of_query = stats[(head * SHARED_BY + one) * queries + query];
                const float weight = exp(BELOW(score, of_query.s0)) * of_query.s1;
                const float kept = KEPT_OF(head * SHARED_BY + one, query, key);
                const float grad_of =
                    DOT(grad, grad_at + query * GRAD_STRIDE(6), v, v_at + key * V_STRIDE(6), VALUES) * kept;
                const float of_score = weight * (grad_of - of_query.s2) * slope;
                __global const STORAGE_T(Q)* q_row = q + (q_at + query * Q_STRIDE(6));
                __global const STORAGE_T(Q)* grad_row = grad + (grad_at + query * GRAD_STRIDE(6));
                for (int e = 0; e < PIECE / 16; ++e) {
                    const int column = first + e * 16;
                    if (column < WIDTH) of_key[e] += of_score * pl_columns(q_row, column, WIDTH);
                    if (column < VALUES) of_value[e] += weight * kept * pl_columns(grad_row, column, VALUES);
                }
            }
        }
        STORE_PIECE(DK, dk, DK_OFFSET(i0, i1, i2, i3, i4, i5, key, 0), of_key, WIDTH, scale)
        STORE_PIECE(DV, dv, DV_OFFSET(i0, i1, i2, i3, i4, i5, key, 0), of_value, VALUES, 1.0f)
    }
}
