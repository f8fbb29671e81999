// Scaled dot product attention, any layouts.
//
//   dst[h, i, c] = sum over j of p[j] * v[h, j, c] / sum over j of p[j],   p[j] = exp(s[j] - max over j of s[j]),
//   s[j] = scale * (sum over e of q[h, i, e] * k[h, j, e]) + mask[h, i, j]
//
// With dropout (attention/dropout.clh) p[j] in the first sum is multiplied by its factor.  SINKS, (..., l, 1) as rows,
// are scores of the second sum and of the maximum alone.
//
// With GROUP, k and v have one head for GROUP of q: h there is h / GROUP.  With SOFTCAP, the scaled product x is
// SOFTCAP * tanh(x / SOFTCAP) before the mask.
// Tensors: Q, K, V and DST as rows (common/rows.clh, the last dimension last: index 6 counts queries or keys), MASK
// alike with strides of 0 where it is repeated.
// One work-item computes one row of dst, padding (as zero) included, VALUES columns of it at a time: for each piece it
// goes through the keys once, and scales what it has down whenever a larger score appears.
#include "attention/dropout.clh"
#include "common/rows.clh"
#include "attention/plain_rows.clh"

#ifndef VALUES
#define VALUES 16  // columns of dst a work-item keeps sums of: 1, 4, 16, 64
#endif
#ifndef CAUSAL
#define CAUSAL 0  // 1: query i sees keys 0 to i
#endif
#ifndef GROUP
#define GROUP 1  // heads (index 5) of q that share one of k and v
#endif
#define KEYS K_DIM(6)
#define WIDTH Q_DIM(7)

__kernel void attention_rows(TENSOR_IN(Q, q), TENSOR_IN(K, k), TENSOR_IN(V, v),
#ifdef MASK_DTYPE
                             TENSOR_IN(MASK, mask),
#endif
                             DROPOUT_INPUT
#ifdef SINKS_DTYPE
                             TENSOR_IN(SINKS, sinks),
#endif
                             TENSOR_OUT(DST, dst), const float scale, const idx_t rows) {
    const idx_t row = (idx_t)get_global_id(0);
    if (row >= rows) return;
    ROW_DECLARE(i)
    ROW_INDICES(DST, i, row)
    int inside = 1;
    for (int d = 0; d < 7; ++d) inside &= i[d] < ROW_DIM_OF(DST, d);
    const idx_t head = i[5], query = i[6], columns = DST_DIM(7), padded = DST_PADDED(7);
#ifdef DROPOUT_SCALE
    idx_t weights_at = 0;
    for (int d = 0; d < 7; ++d) weights_at = weights_at * ROW_DIM_OF(DST, d) + i[d];
    weights_at = bits_at + weights_at * ((KEYS + 31) / 32);
#endif
    const idx_t keys = !inside ? 0 : CAUSAL && query + 1 < KEYS ? query + 1 : KEYS;
    for (idx_t first = 0; first < padded; first += VALUES) {
        float sums[VALUES];
        for (int c = 0; c < VALUES; ++c) sums[c] = 0.0f;
        float largest = -INFINITY, total = 0.0f;
        for (idx_t j = 0; j < keys; ++j) {
            float score = 0.0f;
            for (idx_t e = 0; e < WIDTH; ++e) {
                i[5] = head;
                i[6] = query;
                i[7] = e;
                const float value = LOAD(Q, q, ROW_AT(Q, i));
                i[5] = head / GROUP;
                i[6] = j;
                score += value * LOAD(K, k, ROW_AT(K, i));
            }
            score *= scale;
#ifdef SOFTCAP
            score = SOFTCAP * tanh(score / SOFTCAP);
#endif
#ifdef MASK_DTYPE
            i[5] = head;
            i[6] = query;
            i[7] = j;
#if MASK_IS_BOOL
            if (!LOAD(MASK, mask, ROW_AT(MASK, i))) continue;
#else
            score += LOAD(MASK, mask, ROW_AT(MASK, i));
#endif
#endif
            if (score == -INFINITY) continue;
            if (score > largest) {
                const float correction = exp(largest - score);
                for (int c = 0; c < VALUES; ++c) sums[c] *= correction;
                total *= correction;
                largest = score;
            }
            float weight = exp(score - largest);
            total += weight;
#ifdef DROPOUT_SCALE
            weight *= KEPT(weights_at, j);
#endif
            i[5] = head / GROUP;
            i[6] = j;
            for (int c = 0; c < VALUES; ++c) {
                if (first + c >= columns) break;
                i[7] = first + c;
                sums[c] += weight * LOAD(V, v, ROW_AT(V, i));
            }
        }
        i[5] = head;
        i[6] = query;
#ifdef SINKS_DTYPE
        i[7] = 0;
        const float sink = inside ? LOAD(SINKS, sinks, ROW_AT(SINKS, i)) : -INFINITY;
        const float now = fmax(largest, sink), base = now == -INFINITY ? 0.0f : now;
        const float correction = exp(largest - base);
        for (int c = 0; c < VALUES; ++c) sums[c] *= correction;
        total = total * correction + exp(sink - base);
#endif
        for (int c = 0; c < VALUES; ++c) {
            if (first + c >= padded) break;
            i[7] = first + c;
            STORE(DST, dst, ROW_AT(DST, i), first + c >= columns || total == 0.0f ? 0.0f : sums[c] / total);
        }
    }
}
