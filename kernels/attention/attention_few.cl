// Attention of few queries and many keys, as in decoding: keys in parts, each by a work-group, and then joined.
//
//   s[r, j] = scale * (sum over e of q[r, e] * k[j, e]) + mask[r, j]      in units of ln 2
//   part p:  largest[r] = max over its j of s[r, j],  total[r] = sum of 2^(s[r, j] - largest[r]),
//            sums[r, c] = sum of 2^(s[r, j] - largest[r]) * v[j, c]
//   dst[r, c] = sum over p of sums[r, c] * 2^(largest[r] - m) / sum over p of total[r] * 2^(largest[r] - m)
//
// m is the largest of all.  A row r is a query of one of the GROUP heads of q that share a head of k and v: ROWS of
// them, QUERIES of each head; keys and values are read once for all.  A part that the mask leaves no key of reads
// neither.  SOFTCAP, SINKS and CAUSAL as in attention_rows.cl.
// Tensors: Q, K, V and DST as rows (common/rows.clh, the last dimension last: index 6 counts queries or keys), columns
// side by side; MASK alike with strides of 0 where it is repeated.  `parts`, from `from` on, in floats: for each part,
// row by row, largest, total and VALUES sums; parts of a head of k follow each other.
// attention_few: ITEMS work-items have a key each, then VECTOR columns of v for every SETS-th key.
// attention_join: a work-item has a column of a row.
#include "common/rows.clh"
#include "attention/mask.clh"
#include "attention/plain_rows.clh"

#ifndef ITEMS
#define ITEMS 128  // keys of a part
#endif
#ifndef VECTOR
#define VECTOR 4  // 8 of 16 bits, 4 of f32: 16 bytes, to which rows are aligned
#endif
#ifndef ROWS
#define ROWS 1  // GROUP * QUERIES, at most 8
#define QUERIES 1
#define WIDTH 16   // columns of q and k
#define VALUES 16  // of v
#endif
#ifndef CAUSAL
#define CAUSAL 0  // 1: query i sees keys 0 to i
#endif
#ifndef GROUP
#define GROUP 1  // heads (index 5) of q that share one of k and v
#endif

#define KEYS K_DIM(6)
#define LANES (VALUES / VECTOR)
#define SETS (ITEMS / LANES)
#define NEAR 16  // of the scores' largest, each of which one work-item finds first
#define JOINED 16  // parts that are read at a time
#define TURN (ROWS < 4 ? ROWS : 4)  // rows whose sums are in local memory at a time
#define PER_LN2 1.44269504089f
#define QUAD_PRODUCT(a, b) fma((a).s3, (b).s3, fma((a).s2, (b).s2, fma((a).s1, (b).s1, (a).s0 * (b).s0)))
#if VECTOR == 8
typedef float8 piece_t;
#define LOAD_PIECE LOAD_OCT
#define PRODUCT(a, b) (QUAD_PRODUCT((a).lo, (b).lo) + QUAD_PRODUCT((a).hi, (b).hi))
#define STORE_PIECE vstore8
#else
typedef float4 piece_t;
#define LOAD_PIECE LOAD_QUAD
#define PRODUCT QUAD_PRODUCT
#define STORE_PIECE vstore4
#endif
#define EACH_ROW(r) _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
// Of a row r, in a tensor of q's heads; head: index 5 of k.
#define AT_ROW(i, head, r)                     \
    {                                          \
        i[5] = (head)*GROUP + (r) / QUERIES;   \
        i[6] = (r) % QUERIES;                  \
    }

static inline float largest_of_near(__local const float* near) {
    float largest = near[0];
    _Pragma("unroll") for (int t = 1; t < NEAR; ++t) largest = fmax(largest, near[t]);
    return largest;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void attention_few(TENSOR_IN(Q, q), TENSOR_IN(K, k), TENSOR_IN(V, v),
#ifdef MASK_DTYPE
                   TENSOR_IN(MASK, mask),
#endif
                   __global float* restrict parts, const ulong from, const float scale, const idx_t count) {
    __local piece_t queries[ROWS * (WIDTH / VECTOR)];
    __local float weights[ROWS][ITEMS], near[ROWS][NEAR], scratch[TURN * ITEMS * VECTOR];
    __local int seen;
    const int item = (int)get_local_id(0);
    const idx_t part = (idx_t)get_group_id(0) % count, of_keys = (idx_t)get_group_id(0) / count;
    const idx_t first = part * ITEMS, key = first + item;
    ROW_DECLARE(i)
    ROW_INDICES(K, i, of_keys * KEYS)
    const idx_t head = i[5];
    __global float* own = parts + from + (ulong)get_group_id(0) * (ROWS * (VALUES + 2));
    float score[ROWS];
    int sees = 0;
    EACH_ROW(r) {
        score[r] = key < KEYS && !(CAUSAL && key > r % QUERIES) ? 0.0f : -INFINITY;
#ifdef MASK_DTYPE
        AT_ROW(i, head, r)
        i[7] = key < KEYS ? key : 0;
#if MASK_IS_BOOL
        if (!LOAD(MASK, mask, ROW_AT(MASK, i))) score[r] = -INFINITY;
#else
        if (score[r] != -INFINITY) score[r] += pl_added(LOAD(MASK, mask, ROW_AT(MASK, i)));
#endif
#endif
        sees |= score[r] != -INFINITY;
    }
    for (int at = item; at < ROWS * (WIDTH / VECTOR); at += ITEMS) {
        AT_ROW(i, head, at / (WIDTH / VECTOR))
        i[7] = at % (WIDTH / VECTOR) * VECTOR;
        queries[at] = LOAD_PIECE(Q, q, ROW_AT(Q, i));
    }
#if CAUSAL || defined(MASK_DTYPE)  // else each part has keys that are seen
    if (item == 0) seen = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (sees) seen = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int any = seen;  // no way out where there is none: with one before other barriers PoCL writes elsewhere
#else
    barrier(CLK_LOCAL_MEM_FENCE);
    const int any = 1;
#endif
    if (sees) {
        float products[ROWS];
        EACH_ROW(r) products[r] = 0.0f;
        i[5] = head;
        i[6] = key;
        i[7] = 0;
        const idx_t at = ROW_AT(K, i);
        _Pragma("unroll 8") for (int e = 0; e < WIDTH / VECTOR; ++e) {
            const piece_t piece = LOAD_PIECE(K, k, at + e * VECTOR);
            EACH_ROW(r) products[r] += PRODUCT(queries[r * (WIDTH / VECTOR) + e], piece);
        }
        EACH_ROW(r) {
            float product = products[r] * scale;
#ifdef SOFTCAP
            product = SOFTCAP * tanh(product / SOFTCAP);
#endif
            if (score[r] != -INFINITY) score[r] = (score[r] + product) * PER_LN2;
        }
    }
    EACH_ROW(r) weights[r][item] = score[r];
    barrier(CLK_LOCAL_MEM_FENCE);
    // The largest of each row: of NaN none, the sums then show it.
    for (int at = item; at < ROWS * NEAR; at += ITEMS) {
        const int r = at / NEAR, share = at % NEAR;
        float most = weights[r][share];
        _Pragma("unroll") for (int t = share + NEAR; t < ITEMS; t += NEAR) most = fmax(most, weights[r][t]);
        near[r][share] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float largest[ROWS];
    EACH_ROW(r) {
        largest[r] = largest_of_near(near[r]);
        weights[r][item] = score[r] == -INFINITY ? 0.0f : exp2(score[r] - largest[r]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // Loads without a branch, so that those of several keys are on their way at a time; values that nobody sees may be
    // anything, and are not added.
    const int lane = item % LANES, set = item / LANES;
    piece_t sums[ROWS];
    float total[ROWS];
    EACH_ROW(r) {
        sums[r] = (piece_t)(0.0f);
        total[r] = 0.0f;
    }
    i[5] = head;
    const int have = (int)min((idx_t)ITEMS, KEYS - first);
    if (any) _Pragma("unroll 8") for (int turn = 0; turn < ITEMS; turn += SETS) {
        const int j = turn + set, within = j < have, near_j = within ? j : have - 1;
        i[6] = first + near_j;
        i[7] = lane * VECTOR;
        const piece_t piece = LOAD_PIECE(V, v, ROW_AT(V, i));
        EACH_ROW(r) {
            const float weight = within ? weights[r][near_j] : 0.0f;
            if (weight != 0.0f) sums[r] += weight * piece;
            total[r] += weight;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_ROW(r)
        if (lane == 0 && set < SETS) weights[r][set] = total[r];
    _Pragma("unroll") for (int turn = 0; turn < ROWS; turn += TURN) {
        _Pragma("unroll") for (int t = 0; t < TURN; ++t)
            if (turn + t < ROWS) STORE_PIECE(sums[turn + t], item, scratch + t * (ITEMS * VECTOR));
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int at = item; at < min(TURN, ROWS - turn) * VALUES; at += ITEMS) {
            const int t = at / VALUES, column = at % VALUES;
            float sum = 0.0f;
            _Pragma("unroll") for (int s = 0; s < SETS; ++s) sum += scratch[t * (ITEMS * VECTOR) + s * VALUES + column];
            own[(turn + t) * (VALUES + 2) + 2 + column] = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item < ROWS) {
        float sum = 0.0f;
        _Pragma("unroll") for (int s = 0; s < SETS; ++s) sum += weights[item][s];
        own[item * (VALUES + 2)] = largest_of_near(near[item]);
        own[item * (VALUES + 2) + 1] = sum;
    }
}

__kernel void attention_join(TENSOR_IN(K, k),
#ifdef SINKS_DTYPE
                             TENSOR_IN(SINKS, sinks),
#endif
                             TENSOR_OUT(DST, dst), __global const float* restrict parts, const ulong from,
                             const idx_t count, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    const int column = (int)(place % VALUES), r = (int)(place / VALUES % ROWS);
    const idx_t of_keys = place / (VALUES * ROWS);
    ROW_DECLARE(i)
    ROW_INDICES(K, i, of_keys * KEYS)
    const idx_t head = i[5];
    AT_ROW(i, head, r)
    __global const float* own = parts + from + ((ulong)of_keys * count * ROWS + r) * (VALUES + 2);
    const idx_t step = ROWS * (VALUES + 2);
    // Loads of JOINED parts, without a branch, so that all are on their way at a time.  What nobody sees has no sums.
    float base = -INFINITY, sum = 0.0f, total = 0.0f;
#ifdef SINKS_DTYPE
    base = LOAD(SINKS, sinks, ROW_AT(SINKS, i)) * PER_LN2;
    total = base == -INFINITY ? 0.0f : 1.0f;
#endif
    for (idx_t p = 0; p < count; p += JOINED) {
        float largest[JOINED], totals[JOINED], sums[JOINED], most = base;
        _Pragma("unroll") for (int t = 0; t < JOINED; ++t) {
            const idx_t at = min(p + t, count - 1) * step;
            largest[t] = own[at];
            totals[t] = p + t < count ? own[at + 1] : 0.0f;
            sums[t] = own[at + 2 + column];
        }
        _Pragma("unroll") for (int t = 0; t < JOINED; ++t) most = fmax(most, largest[t]);
        const float factor = base == most ? 1.0f : exp2(base - most);
        base = most;
        sum *= factor;
        total *= factor;
        _Pragma("unroll") for (int t = 0; t < JOINED; ++t) {
            const float factor_of_part = exp2(largest[t] - base);
            if (totals[t] == 0.0f) continue;
            total += totals[t] * factor_of_part;
            sum += sums[t] * factor_of_part;
        }
    }
    i[7] = column;
    STORE(DST, dst, ROW_AT(DST, i), total == 0.0f ? 0.0f : sum / total);
}
