// The gradient of a convolution by its weights on matrix units, from tensors as they lie with channels innermost.
//
//   dst[o, i, k] = sum over n, p of grad[n, o, p] * src[n, first(o) + i, p * stride - begin + k * dilation]
// with p, k positions in (d, h, w), first(o) the first channel of o's group; src is zero outside.
//
// Tensors: SRC (n, c, d, h, w) and GRAD (n, oc, d, h, w) NDHWC, DST (oc, c / GROUPS, kd, kh, kw) stored as ODHWI, all
// dense, of MATRIX_DTYPE; c and oc are multiples of LEFT_ELEMENTS, c / GROUPS of FINISHED.  With DEPTH 0 there is one
// plane and one tap along it (common/positions.clh).
//
// A product for each k: its rows are o, its columns i, its terms the positions of grad in the order of (n, d, h, w).
// Both factors lie with their terms outermost, and so do their tiles in local memory (TURNED of common/mma.clh).
// Group ids: 0 tiles, 1 k, 2 the part of the sum.  With PARTS 1 each part's sums go to `parts`[part][o][k][i] in f32, to
// be added in order by sum_of_parts.
// Sums of three products that are not finite are computed again in f32, term by term.
#define TURNED 1
#include "common/tensor.clh"
#include "common/mma.clh"
#include "common/positions.clh"
#include "common/strip.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32
#define SRC_DTYPE f32
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_BASE (src_arg.offset)
#define GRAD_DTYPE f32
#define GRAD_DIM(i) PLAIN_DIM(grad, i)
#define GRAD_BASE (grad_arg.offset)
#define DST_DTYPE f32
#define DST_BASE (dst_arg.offset)
#endif
#ifndef POINTWISE
#define POINTWISE 0  // 1: one k, and each position of grad is the one of src: 0, 1
#endif
#ifndef GROUPS
#define GROUPS 1  // divides c and oc
#endif
#ifndef GROUPS_OF_TILE
#define GROUPS_OF_TILE 1  // that one tile spans, of which it keeps the products within a group
#endif
#ifndef PARTS
#define PARTS 0  // 1: the sum is split, partial sums are stored: 0, 1
#endif

// A work-item copies every MMA_GROUP-th part of a piece, LEFT_BYTES of either factor; where rows of parts divide that,
// all of one column.
#define LEFT_ACROSS (TILE_M / LEFT_ELEMENTS)
#define RIGHT_ACROSS (TILE_N / LEFT_ELEMENTS)
#define LEFT_SHARE ((TILE_K * LEFT_ACROSS + MMA_GROUP - 1) / MMA_GROUP)
#define RIGHT_SHARE ((TILE_K * RIGHT_ACROSS + MMA_GROUP - 1) / MMA_GROUP)
#if MMA_GROUP % LEFT_ACROSS == 0
#define LEFT_TERM(j) ((int)(item / LEFT_ACROSS) + (j) * (MMA_GROUP / LEFT_ACROSS))
#define LEFT_COLUMN(j) ((int)(item % LEFT_ACROSS))
#else
#define LEFT_TERM(j) ((int)((item + (j)*MMA_GROUP) / LEFT_ACROSS))
#define LEFT_COLUMN(j) ((int)((item + (j)*MMA_GROUP) % LEFT_ACROSS))
#endif
#if MMA_GROUP % RIGHT_ACROSS == 0
#define RIGHT_TERM(j) ((int)(item / RIGHT_ACROSS) + (j) * (MMA_GROUP / RIGHT_ACROSS))
#define RIGHT_COLUMN(j) ((int)(item % RIGHT_ACROSS))
#else
#define RIGHT_TERM(j) ((int)((item + (j)*MMA_GROUP) / RIGHT_ACROSS))
#define RIGHT_COLUMN(j) ((int)((item + (j)*MMA_GROUP) % RIGHT_ACROSS))
#endif
#define IS_LEFT(j) (TILE_K * LEFT_ACROSS % MMA_GROUP == 0 || LEFT_TERM(j) < TILE_K)
#define IS_RIGHT(j) (TILE_K * RIGHT_ACROSS % MMA_GROUP == 0 || RIGHT_TERM(j) < TILE_K)
#define LEFT_AT(j) (o0 + LEFT_COLUMN(j) * LEFT_ELEMENTS)
#define RIGHT_AT(j) (i0 + RIGHT_COLUMN(j) * LEFT_ELEMENTS)

#if POINTWISE
#define RIGHT_FROM(j) ((term + RIGHT_TERM(j)) * channels + RIGHT_AT(j))
#define RIGHT_THERE(j) (RIGHT_AT(j) < channels && term + RIGHT_TERM(j) < terms)
#define NEXT_TERMS()
#else
#define RIGHT_Z(j) (d[j] * (idx_t)window.stride[0] + front)
#define RIGHT_Y(j) (h[j] * (idx_t)window.stride[1] + top)
#define RIGHT_X(j) (w[j] * (idx_t)window.stride[2] + left)
#define RIGHT_FROM(j) (POSITIONS_BEFORE(SRC, n[j], RIGHT_Z(j), RIGHT_Y(j), RIGHT_X(j)) * channels + RIGHT_AT(j))
#define RIGHT_THERE(j)                                         \
    (RIGHT_AT(j) < channels && term + RIGHT_TERM(j) < terms && \
     IN_POSITIONS(SRC, RIGHT_Z(j), RIGHT_Y(j), RIGHT_X(j)))
#if DEPTH
#define NEXT_PLANE(j, over_h)                 \
    d[j] += a_step.d + over_h;                \
    const idx_t over_d = d[j] >= GRAD_DIM(2); \
    d[j] -= over_d * GRAD_DIM(2);             \
    n[j] += a_step.n + over_d;
#else
#define NEXT_PLANE(j, over_h) n[j] += a_step.n + over_h;
#endif
#define NEXT_TERMS()                                          \
    _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) { \
        w[j] += a_step.w;                                     \
        const idx_t over_w = w[j] >= GRAD_DIM(4);             \
        w[j] -= over_w * GRAD_DIM(4);                         \
        h[j] += a_step.h + over_w;                            \
        const idx_t over_h = h[j] >= GRAD_DIM(3);             \
        h[j] -= over_h * GRAD_DIM(3);                         \
        NEXT_PLANE(j, over_h)                                 \
    }
#endif
#if FINISHED == 4
#define STORE_SUMS(place, sum) STORE_QUAD(DST, dst, place, sum)
#elif FINISHED == 2
#define STORE_SUMS(place, sum) STORE_PAIR(DST, dst, place, sum)
#else
#define STORE_SUMS(place, sum) STORE(DST, dst, place, sum)
#endif
// Starts the copies of one step into stage `to` and moves on to the next step.  Where a copy is zero-filled its source
// is not read and may be any address.
#define COPY_STEP(to)                                                                                                  \
    {                                                                                                                  \
        const tiles_place stage_ = AT_SLOT(all_tiles, (to)*TILE_SLOTS);                                                \
        _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) if (IS_LEFT(j))                                         \
            COPY_LEFT(AT_SLOT(stage_, LEFT_SLOT(LEFT_TERM(j), LEFT_COLUMN(j) / LEFT_PARTS)),                           \
                      LEFT_COLUMN(j) % LEFT_PARTS, grad + (GRAD_BASE + (term + LEFT_TERM(j)) * rows + LEFT_AT(j)),     \
                      LEFT_AT(j) < rows && term + LEFT_TERM(j) < terms ? LEFT_BYTES : 0);                              \
        _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) if (IS_RIGHT(j))                                       \
            COPY_LEFT(AT_SLOT(stage_, RIGHT_SLOT(RIGHT_TERM(j), RIGHT_COLUMN(j) / LEFT_PARTS)),                        \
                      RIGHT_COLUMN(j) % LEFT_PARTS, src + (SRC_BASE + RIGHT_FROM(j)),                                  \
                      RIGHT_THERE(j) ? LEFT_BYTES : 0);                                                                \
        term += TILE_K;                                                                                                \
        NEXT_TERMS()                                                                                                   \
    }

__kernel MMA_ATTRIBUTES __attribute__((reqd_work_group_size(MMA_GROUP, 1, 1)))
void conv_backward_weights_mma(TENSOR_IN(SRC, src), TENSOR_IN(GRAD, grad), TENSOR_OUT(DST, dst), const window_arg window
#if PARTS
                               , __global float* restrict parts, const int steps_per_part
#endif
) {
    __local uint4 tiles[MMA_LOCAL_SLOTS] __attribute__((aligned(MMA_TILES_ALIGNMENT)));
    const uint item = (uint)get_local_id(0);
    const idx_t channels = SRC_DIM(1), rows = GRAD_DIM(1);
    const idx_t terms = POSITIONS_BEFORE(GRAD, GRAD_DIM(0), 0, 0, 0);
    const idx_t k = (idx_t)get_group_id(1), taps = (idx_t)get_num_groups(1);
    // Rows and columns of one group, and the ranges of those that tiles share out: of all, or of the groups of a tile.
    const idx_t group_rows = rows / GROUPS, group_columns = channels / GROUPS;
    const idx_t range_rows = GROUPS_OF_TILE * group_rows, range_columns = GROUPS_OF_TILE * group_columns;
    const int tiles_m = (int)((range_rows + TILE_M - 1) / TILE_M);
    const int tiles_n = (int)((range_columns + TILE_N - 1) / TILE_N);
    const int range = (int)get_group_id(0) / (tiles_m * tiles_n), tile = (int)get_group_id(0) % (tiles_m * tiles_n);
    const idx_t o0 = range * range_rows + (idx_t)(tile / tiles_n) * TILE_M;
    const idx_t i0 = range * range_columns + (idx_t)(tile % tiles_n) * TILE_N;
    const idx_t o_end = min(rows, (range + 1) * range_rows), i_end = min(channels, (range + 1) * range_columns);
    const int all_steps = (int)((terms + TILE_K - 1) / TILE_K);
#if PARTS
    const int first_step = (int)get_group_id(2) * steps_per_part;
    const int steps = min(steps_per_part, all_steps - first_step);
#else
    const int first_step = 0, steps = all_steps;
#endif
    idx_t term = first_step * (idx_t)TILE_K;
    const place_t tap = pl_tap(k, window.size[1], window.size[2]);
    const idx_t front = tap.d * (idx_t)window.dilation[0] - window.begin[0];
    const idx_t top = tap.h * (idx_t)window.dilation[1] - window.begin[1];
    const idx_t left = tap.w * (idx_t)window.dilation[2] - window.begin[2];
#if !POINTWISE
    idx_t n[RIGHT_SHARE], d[RIGHT_SHARE], h[RIGHT_SHARE], w[RIGHT_SHARE];  // of the terms that it copies
    _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) {
        const place_t at = POSITION_IN(GRAD, term + RIGHT_TERM(j));
        n[j] = at.n, d[j] = at.d, h[j] = at.h, w[j] = at.w;
    }
    const place_t a_step = POSITION_IN(GRAD, TILE_K);
#endif
    const tiles_place all_tiles = TILES_PLACE(tiles);

    MMA_ACCUMULATORS(acc);
    _Pragma("unroll") for (int i = 0; i < MMA_ROWS; ++i)
        _Pragma("unroll") for (int j = 0; j < MMA_COLUMNS; ++j) MMA_ZERO(acc, i, j);
    _Pragma("unroll") for (int s = 0; s < STEPS_AHEAD; ++s) {
        if (s < steps) COPY_STEP(s)
        COPY_COMMIT();
    }
    int now = 0, later = STEPS_AHEAD;  // stages: multiplied, copied to
    for (int step = 0; step < steps; ++step) {
        COPY_WAIT(STEPS_AHEAD - 1);
        COPY_SHOW();
        barrier(CLK_LOCAL_MEM_FENCE);
        if (step + STEPS_AHEAD < steps) COPY_STEP(later)
        COPY_COMMIT();
        MULTIPLY_TILES(all_tiles, now, step > 0, acc);
        now = now + 1 == STAGES ? 0 : now + 1;
        later = later + 1 == STAGES ? 0 : later + 1;
    }
    MULTIPLY_LAST(acc)

    __local float* staged = (__local float*)tiles;
    _Pragma("unroll 1") for (int i_part = 0; i_part < MMA_ROWS * STAGES_OF_SUMS; ++i_part) {
        const int block = i_part / STAGES_OF_SUMS, part = i_part % STAGES_OF_SUMS;
        barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("unroll") for (int i = 0; i < MMA_ROWS; ++i)
            if (i == block) STAGE_SUMS(staged, acc, i, part)
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int e = (int)item; e < STAGED_ROWS * (TILE_N / FINISHED); e += MMA_GROUP) {
            const int row = e / (TILE_N / FINISHED), column = e % (TILE_N / FINISHED) * FINISHED;
            const idx_t o = o0 + STAGED_ROW(block, part, row), i = i0 + column;
            if (o >= o_end || i >= i_end || (GROUPS > 1 && o / group_rows != i / group_columns)) continue;
            strip sum = *(__local strip*)(staged + row * STAGED_PITCH + column);
#if !MMA_IS_EXACT
            if (!IS_FINITE(sum)) {
                float again[FINISHED] = {0.0f};
                const idx_t begin = first_step * (idx_t)TILE_K, end = min(terms, begin + steps * (idx_t)TILE_K);
                for (idx_t at = begin; at < end; ++at) {
                    const place_t p = POSITION_IN(GRAD, at);
                    const idx_t z = p.d * (idx_t)window.stride[0] + front;
                    const idx_t y = p.h * (idx_t)window.stride[1] + top;
                    const idx_t x = p.w * (idx_t)window.stride[2] + left;
                    if (!IN_POSITIONS(SRC, z, y, x)) continue;
                    const idx_t from = SRC_BASE + POSITIONS_BEFORE(SRC, p.n, z, y, x) * channels + i;
                    const float left_factor = LOAD(GRAD, grad, GRAD_BASE + at * rows + o);
                    for (int s = 0; s < FINISHED; ++s) again[s] = fma(left_factor, LOAD(SRC, src, from + s), again[s]);
                }
                sum = STRIP_OF(again);
            }
#endif
            const idx_t place = (o * taps + k) * group_columns + i % group_columns;
#if PARTS
            *(__global strip*)(parts + (size_t)get_group_id(2) * ((size_t)rows * taps * group_columns) + place) = sum;
#else
            STORE_SUMS(DST_BASE + place, sum);
#endif
        }
    }
}
