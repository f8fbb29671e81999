// Convolution as an implicit matrix product on matrix units, channels innermost.
//
//   dst[n, o, q] = activation(sum over i, k of src[n, g * ic + i, q * stride - begin + k * dilation] * wei[o, i, k]
//                             + bias[o] + res[n, o, q])
// with g = o / oc_per_group, ic the channels of a group; q, k positions in (d, h, w); src is zero outside.
//
// Tensors: SRC (n, c, d, h, w) and DST (n, oc, d, h, w) with channels innermost (NDHWC, dense), WEI (oc, ic, kd, kh,
// kw) stored as ODHWI, dense, with zeros behind the last channel where ic is no multiple of CHUNK_ELEMENTS; BIAS (oc);
// RES as DST.  All of MATRIX_DTYPE but BIAS; ic is a multiple of LEFT_ELEMENTS and so is c, so that copies of SRC are
// aligned and none holds channels of two groups or positions.
//
// With DEPTH 0 there is one plane and one tap along it, and what they would cost is not there (common/positions.clh).
// The rows of the left matrix are positions in the order of (n, d, h, w), its columns (kd, kh, kw, i); a work-group
// computes TILE_M positions of TILE_N channels of one group (common/mma.clh).  Steps go through channels, CHUNKS pieces at a
// time, then through kernel positions; pieces outside of src, of the positions or of the channels are
// zero-filled copies, and so is the rest of a piece that the channels end in (LEFT_BYTES below 16).
// SRC and DST may have zeros behind their last channel up to whole pieces as well; they are SCATTERED then, and there is
// one group.
// Where there are no more channels than a piece holds (POSITIONS 1), SRC has them in one block of that many (nChw4c)
// and WEI likewise (OIhw4i); a piece is a kernel position then, and steps go through positions alone.
// With STACKED 1 there is a product for each g: SRC and WEI have g in the place of d, with any stride, DST
// and RES are stacks of dense results, and o counts within one of them.
// With GROUPED 1 groups of positions, which follow each other as the tensor OFF says (matmul/grouped_rows.clh), have
// weights of their own: WEI has the group in the place of d. Positions of no group are zero.
// With SCATTERED 1 positions of DST do not follow each other (common/scattered.clh); there is no RES then.
// Group ids: 0 tiles, SUPER_M rows of tiles at a time so that those at work together share panels; 1 g, or the phase; 2 the
// part of the sum.  With PARTS 1 each part's sums go to `parts`[part][position][oc] in f32, to be added in order by
// sum_of_parts.
// Sums of three products that are not finite are computed again in f32, term by term.
#include "common/epilogue.clh"
#include "common/mma.clh"
#include "common/positions.clh"
#include "common/scattered.clh"
#include "common/strip.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, NHWC
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_STRIDE(i) PLAIN_STRIDE(src, i)
#define WEI_DTYPE f32
#define WEI_PADDED(i) PLAIN_DIM(wei, i)
#define WEI_STRIDE(i) PLAIN_STRIDE(wei, i)
#define WEI_BASE (wei_arg.offset)
#define DST_DTYPE f32
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_BLOCK(i) 1
#define DST_PADDED(i) PLAIN_DIM(dst, i)
#define DST_STRIDE(i) PLAIN_STRIDE(dst, i)
#define DST_BASE (dst_arg.offset)
#endif
#ifndef POINTWISE
#define POINTWISE 0  // 1: a kernel of one position and no padding: 0, 1
#endif
#ifndef POSITIONS
#define POSITIONS 0  // 1: pieces are positions: 0, 1
#endif
#ifndef ROWS_IN_ORDER
#define ROWS_IN_ORDER 0  // 1: POINTWISE, and each position reads the one that it writes: 0, 1
#endif
#if ROWS_IN_ORDER && !POINTWISE
#undef POINTWISE
#define POINTWISE 1
#endif
#ifndef WHOLE_STEPS
#define WHOLE_STEPS 0  // 1: ic is a multiple of TILE_K: 0, 1
#endif
#ifndef PARTS
#define PARTS 0  // 1: the sum is split, partial sums are stored: 0, 1
#endif
#ifndef SCATTERED
#define SCATTERED 0  // 1: positions of dst are apart: 0, 1
#endif
#ifndef SUPER_M
#define SUPER_M 8  // rows of tiles that are computed column by column: 1, 4, 8, 16
#endif

#ifndef STACKED
#define STACKED 0  // 1: each group has tensors of its own, a stack of them along dimension 2: 0, 1
#endif

#ifndef GROUPED
#define GROUPED 0  // 1: weights are those of the group of a position: 0, 1
#endif

#ifndef PHASES
#define PHASES 1  // more: each group is a convolution of the same tensors whose windows begin elsewhere: 1, 2, 4, 8
#endif

#if STACKED && DEPTH
#error "a stack lies where planes would"
#endif
#if GROUPED
#if !POINTWISE
#undef POINTWISE
#define POINTWISE 1
#endif
#ifndef OFF_DTYPE
#define OFF_DTYPE s32
#define OFF_OFFSET(g) PLAIN_OFFSET1(off, g)
#define OFF_DIM(i) PLAIN_DIM(off, i)
#endif
#if STACKED || PARTS || PHASES > 1 || DEPTH || SCATTERED || POSITIONS
#error "groups are of positions in order"
#endif
#include "matmul/grouped_rows.clh"
#define ROWS_END m_end
#else
#define ROWS_END pixels
#endif

#if PHASES > 1
#if STACKED || PARTS
#error "phases are neither stacks nor parts"
#endif
typedef struct {
    int begin[PHASES][3];  // padding before the first input
    int dst[PHASES];       // where results lie, from DST's own offset on
    int weights;           // of a phase; those of the next one follow
} phases_arg;
#define WINDOW_BEGIN(axis) phases.begin[group][axis]
#define PHASE_DST phases.dst[group]
#else
#define WINDOW_BEGIN(axis) window.begin[axis]
#define PHASE_DST ((idx_t)0)
#endif
#if STACKED
#define GROUP_SRC(n, c, z, y, x) SRC_OFFSET(n, c, group, y, x)
#define GROUP_WEI (WEI_BASE + group * WEI_STRIDE(2))
#define GROUP_COLUMN ((idx_t)0)
#define GROUP_ROW (group * pixels)
#define ALL_ROWS (get_num_groups(1) * (size_t)pixels)
#elif PHASES > 1
#define GROUP_SRC(n, c, z, y, x) SRC_OFFSET(n, c, z, y, x)
#define GROUP_WEI (WEI_BASE + group * (idx_t)phases.weights)
#define GROUP_COLUMN ((idx_t)0)
#define GROUP_ROW ((idx_t)0)
#else
#define GROUP_SRC(n, c, z, y, x) SRC_OFFSET(n, group * ic + (c), z, y, x)
#if GROUPED
#define GROUP_WEI (WEI_BASE + m_group * WEI_STRIDE(2))
#else
#define GROUP_WEI WEI_BASE
#endif
#define GROUP_COLUMN (group * oc_per_group)
#define GROUP_ROW ((idx_t)0)
#define ALL_ROWS ((size_t)pixels)
#endif
#define LEFT_SHARE (TILE_M * CHUNKS * LEFT_PARTS / MMA_GROUP)  // copies of a stage that a work-item makes
#define RIGHT_SHARE ((TILE_N * CHUNKS + MMA_GROUP - 1) / MMA_GROUP)  // the last one may be some work-items' only
#define IN_RIGHT(j) (TILE_N * CHUNKS % MMA_GROUP == 0 || (j) + 1 < RIGHT_SHARE || COPY_ROW(j) < TILE_N)
#if MMA_HELD
#if LEFT_SHARE * MMA_GROUP != TILE_M * CHUNKS * LEFT_PARTS || RIGHT_SHARE * MMA_GROUP != TILE_N * CHUNKS
#error "the work-items of a group do not share its pieces evenly"
#endif
#if MMA_GROUP / CHUNKS % MMA_SLOT_ROWS != 0
#error "the slots of a work-item's pieces are not MMA_GROUP apart"
#endif
#endif
#define COPY_ROW(j) (item / CHUNKS + (j) * (MMA_GROUP / CHUNKS))  // a multiple of 8 apart: slots MMA_GROUP apart
// Left factors: neighbouring work-items copy neighbouring parts.  A work-item's rows are LEFT_APART apart.  Where that
// is not a multiple of MMA_SLOT_ROWS, its slots follow LEFT_WAYS patterns in turn; `left_copies` holds where each begins,
// and slots of one pattern are a constant distance apart.
#define LEFT_APART (MMA_GROUP / (CHUNKS * LEFT_PARTS))
#define LEFT_ROW(j) (item / (CHUNKS * LEFT_PARTS) + (j)*LEFT_APART)
#if LEFT_APART % MMA_SLOT_ROWS == 0
#define LEFT_WAYS 1
#elif LEFT_APART * 2 % MMA_SLOT_ROWS == 0
#define LEFT_WAYS 2
#elif LEFT_APART * 4 % MMA_SLOT_ROWS == 0
#define LEFT_WAYS 4
#else
#define LEFT_WAYS MMA_SLOT_ROWS
#endif
#define LEFT_PLACE(to, j) \
    AT_SLOT(left_copies[(j) % LEFT_WAYS], (to)*TILE_SLOTS + (j) / LEFT_WAYS * (LEFT_WAYS * LEFT_APART * CHUNKS))
#if ROWS_IN_ORDER  // what is an array otherwise is little arithmetic
#define LEFT_FROM(j) (base + (j) * (LEFT_APART * SRC_DIM(1)) + left_at)
#define LEFT_THERE(j) (first + LEFT_ROW(j) < ROWS_END ? LEFT_BYTES : 0)
#else
#define LEFT_FROM(j) (base[j] + left_at)
#define LEFT_THERE(j) left_bytes[j]
#endif

// Starts the copies of one step into stage `to` and moves on to the next step.  Where a copy is zero-filled its source
// is not read and may be any address.
#if MMA_HELD  // what COPY_STEP has loaded is written by END_COPIES, when the step before it has been multiplied
#define COPY_STEP(to)                                                                                              \
    {                                                                                                              \
        _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) left_held[j] =                                      \
            COPIED_LEFT(src + LEFT_FROM(j), LEFT_IN_STEP(LEFT_THERE(j)));                                          \
        _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) right_held[j] =                                    \
            COPIED(wei + (right_at + j * right_pitch), IN_STEP(right_bytes[j]));                                   \
        right_at += TILE_K;                                                                                        \
        NEXT_STEP()                                                                                                \
    }
#define END_COPIES(to)                                                                                             \
    {                                                                                                              \
        const tiles_place stage_ = AT_SLOT(copies, (to)*TILE_SLOTS);                                               \
        _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j)                                                     \
            LEFT_PART(LEFT_PLACE(to, j), left_part) = left_held[j];                                                \
        _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j)                                                    \
            *AT_SLOT(stage_, TILE_M * CHUNKS + j * MMA_GROUP) = right_held[j];                                     \
    }
#else
#define END_COPIES(to)
#define COPY_STEP(to)                                                                                              \
    {                                                                                                              \
        const tiles_place stage_ = AT_SLOT(copies, (to)*TILE_SLOTS);                                               \
        _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j)                                                     \
            COPY_LEFT(LEFT_PLACE(to, j), left_part, src + LEFT_FROM(j), LEFT_IN_STEP(LEFT_THERE(j)));              \
        _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) if (IN_RIGHT(j))                                   \
            COPY_ASYNC(AT_SLOT(stage_, TILE_M * CHUNKS + j * MMA_GROUP), wei + (right_at + j * right_pitch),       \
                       IN_STEP(right_bytes[j]));                                                                   \
        right_at += TILE_K;                                                                                        \
        NEXT_STEP()                                                                                                \
    }
#endif
#if POSITIONS
#define NEXT_STEP()                                            \
    {                                                          \
        position += CHUNKS;                                    \
        LOOK_AT_POSITION()                                     \
    }
#define IN_STEP(bytes) (position < taps ? (bytes) : 0)
#define LEFT_IN_STEP(bytes) IN_STEP(bytes)
#define LOOK_AT_POSITION()                                                    \
    {                                                                         \
        const place_t tap = pl_tap(position, window.size[1], window.size[2]); \
        const idx_t dd = tap.d * (idx_t)window.dilation[0];                   \
        const idx_t hh = tap.h * (idx_t)window.dilation[1];                   \
        const idx_t ww = tap.w * (idx_t)window.dilation[2];                   \
        left_at = PLACES_APART(SRC, dd, hh, ww);                              \
        LOOK_AT(dd, hh, ww)                                                   \
    }
#else
#define NEXT_STEP()                     \
    {                                   \
        left_at += TILE_K;              \
        i0 += TILE_K;                   \
        if (i0 >= ic) {                 \
            right_at += wei_ic - i0;    \
            i0 = 0;                     \
            NEXT_POSITION()             \
        }                               \
    }
#if WHOLE_STEPS
#define IN_STEP(bytes) (bytes)
#define LEFT_IN_STEP(bytes) (bytes)
#else
#define IN_STEP(bytes) (i0 + piece * CHUNK_ELEMENTS < ic ? (bytes) : 0)
#define LEFT_IN_STEP(bytes) (i0 + left_piece * LEFT_ELEMENTS < ic ? (bytes) : 0)
#endif
#if POINTWISE
#define NEXT_POSITION()
#else
#define NEXT_POSITION()               \
    {                                 \
        ww += window.dilation[2];     \
        if (++kw == window.size[2]) { \
            kw = 0, ww = 0;           \
            NEXT_LINE(window, dd, hh) \
        }                             \
        LOOK_AT_POSITION()            \
    }
#define LOOK_AT_POSITION()                                                         \
    {                                                                              \
        left_at = PLACES_APART(SRC, dd, hh, ww) + i0 + left_piece * LEFT_ELEMENTS; \
        LOOK_AT(dd, hh, ww)                                                        \
    }
#endif
#endif

// A work-item finishes SHARE strips of FINISHED columns of the sums that are staged at a time, e = 0, 1, ..., next to
// its neighbours' in the order of rows.  BATCH of them are on their way together where none lies outside of the result.
#define STRIPS_ACROSS (TILE_N / FINISHED)
#define STAGED_STRIPS (STAGED_ROWS * STRIPS_ACROSS)
#define SHARE ((STAGED_STRIPS + MMA_GROUP - 1) / MMA_GROUP)
#define IS_STRIP(e) (STAGED_STRIPS % MMA_GROUP == 0 || item + (e)*MMA_GROUP < STAGED_STRIPS)
#if MMA_GROUP % STRIPS_ACROSS == 0
#define STRIP_ROW(e) (item / STRIPS_ACROSS + (e) * (MMA_GROUP / STRIPS_ACROSS))
#define STRIP_COLUMN(e) (item % STRIPS_ACROSS * FINISHED)
#else
#define STRIP_ROW(e) ((int)((uint)(item + (e)*MMA_GROUP) / STRIPS_ACROSS))
#define STRIP_COLUMN(e) ((int)((uint)(item + (e)*MMA_GROUP) % STRIPS_ACROSS * FINISHED))
#endif
#if SHARE % 8 == 0
#define BATCH 8
#elif SHARE % 7 == 0
#define BATCH 7
#elif SHARE % 6 == 0
#define BATCH 6
#elif SHARE % 5 == 0
#define BATCH 5
#elif SHARE % 13 == 0
#define BATCH 13
#elif SHARE % 4 == 0
#define BATCH 4
#elif SHARE % 3 == 0
#define BATCH 3
#elif SHARE % 2 == 0
#define BATCH 2
#else
#define BATCH 1
#endif
#define STAGED_STRIP(e) (*(__local strip*)(staged + STRIP_ROW(e) * STAGED_PITCH + STRIP_COLUMN(e)))
#if SCATTERED && !PARTS
#define PLACE(e) \
    (SCATTERED_ROW(DST, first + STAGED_ROW(block, part, STRIP_ROW(e))) + o0 + STRIP_COLUMN(e))
#else
#define PLACE(e) \
    ((GROUP_ROW + first + STAGED_ROW(block, part, STRIP_ROW(e))) * DST_DIM(1) + o0 + STRIP_COLUMN(e))  // in dense dst
#endif
#if PARTS
#define RESIDUAL(place) ((strip)(0.0f))
#define JOIN_RESIDUAL(sum, more, o)
#define STORE_STRIP(place, o, sum) \
    *(__global strip*)(parts + ((size_t)get_group_id(2) * ALL_ROWS * DST_DIM(1) + (place))) = (sum)
#else
#if FINISHED == 4
#define RESIDUAL(place) RESIDUAL_QUAD(RES_BASE + PHASE_DST + (place))
#define JOIN_RESIDUAL(sum, more, o) JOIN_RESIDUAL_QUAD(sum, more, o)
#define STORE_STRIP(place, o, sum) STORE_QUAD(DST, dst, DST_BASE + PHASE_DST + (place), EPILOGUE_QUAD_JOINED(sum, o))
#elif FINISHED == 2
#define RESIDUAL(place) RESIDUAL_PAIR(RES_BASE + PHASE_DST + (place))
#define JOIN_RESIDUAL(sum, more, o) JOIN_RESIDUAL_PAIR(sum, more, o)
#define STORE_STRIP(place, o, sum) STORE_PAIR(DST, dst, DST_BASE + PHASE_DST + (place), EPILOGUE_PAIR_JOINED(sum, o))
#else
#define RESIDUAL(place) RESIDUAL_ONE(RES_BASE + PHASE_DST + (place))
#define JOIN_RESIDUAL(sum, more, o) JOIN_RESIDUAL_ONE(sum, more, o)
#define STORE_STRIP(place, o, sum) STORE(DST, dst, DST_BASE + PHASE_DST + (place), EPILOGUE_JOINED(sum, o))
#endif
#endif
#if DST_BLOCK(1) > 1  // columns behind the last channel are zeros
#if PARTS
#error "parts have no padding"
#endif
#define STORED_END DST_PADDED(1)
#if FINISHED == 4
#define STORE_ZEROS(place) STORE_QUAD(DST, dst, DST_BASE + PHASE_DST + (place), (float4)(0.0f))
#elif FINISHED == 2
#define STORE_ZEROS(place) STORE_PAIR(DST, dst, DST_BASE + PHASE_DST + (place), (float2)(0.0f))
#else
#define STORE_ZEROS(place) STORE(DST, dst, DST_BASE + PHASE_DST + (place), 0.0f)
#endif
#else
#define STORED_END o_end
#endif
#if defined(RES_DTYPE) && !PARTS
#define LOAD_RESIDUALS(from) \
    { _Pragma("unroll") for (int k = 0; k < BATCH; ++k) residual[k] = RESIDUAL(PLACE((from) + k)); }
#else
#define LOAD_RESIDUALS(from) {}
#endif
#define AGAIN (POSITIONS ? CHUNKS : 1)  // runs of terms that lie side by side, of a step
#define LOOK_AT(dd, hh, ww)                                                \
    _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) left_bytes[j] = \
        IN_POSITIONS(SRC, d0[j] + (dd), h0[j] + (hh), w0[j] + (ww)) ? LEFT_BYTES : 0;

__kernel MMA_ATTRIBUTES __attribute__((reqd_work_group_size(MMA_GROUP, 1, 1)))
void conv_fwd_mma(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei), TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS,
                  const window_arg window, const idx_t oc_per_group, const idx_t pixels
#if PARTS
                  , __global float* restrict parts, const int steps_per_part
#endif
#if PHASES > 1
                  , const phases_arg phases
#endif
#if GROUPED
                  , TENSOR_IN(OFF, off)
#endif
) {
    __local uint4 tiles[MMA_LOCAL_SLOTS] __attribute__((aligned(MMA_TILES_ALIGNMENT)));
    const int item = (int)get_local_id(0), piece = item % CHUNKS;
    const int left_piece = item % (CHUNKS * LEFT_PARTS), left_part = left_piece % LEFT_PARTS;
    const idx_t group = (idx_t)get_group_id(1), wei_ic = POSITIONS ? CHUNK_ELEMENTS : WEI_PADDED(1);
    const idx_t ic = LEFT_PARTS == 1 ? wei_ic : SRC_DIM(1) / (STACKED || PHASES > 1 ? 1 : (idx_t)get_num_groups(1));
    const idx_t taps = TAPS_OF(window);
    const idx_t row_weights = taps * wei_ic;
#if GROUPED
    const int tiles_m = (int)(pixels / TILE_M + OFF_DIM(0) + 1);
#else
    const int tiles_m = (int)((pixels + TILE_M - 1) / TILE_M);
#endif
    const int tiles_n = (int)((oc_per_group + TILE_N - 1) / TILE_N);
    const int super = (int)get_group_id(0) / (SUPER_M * tiles_n), in_super = (int)get_group_id(0) % (SUPER_M * tiles_n);
    const int super_rows = min(SUPER_M, tiles_m - super * SUPER_M);
    const int tile_m = super * SUPER_M + in_super % super_rows;
#if GROUPED
    TILE_OF_SLOT(tile_m, TILE_M, pixels)
    const idx_t first = m0;
#else
    const idx_t first = (idx_t)tile_m * TILE_M;
#endif
    const idx_t o0 = GROUP_COLUMN + (idx_t)(in_super / super_rows) * TILE_N, o_end = GROUP_COLUMN + oc_per_group;
#if GROUPED  // all work-items leave, or none
    if (m_group == OFF_DIM(0))
        for (int e = item; e < TILE_M * TILE_N; e += MMA_GROUP)
            if (first + e / TILE_N < m_end && o0 + e % TILE_N < o_end)
                STORE(DST, dst, DST_BASE + (first + e / TILE_N) * DST_DIM(1) + o0 + e % TILE_N, 0.0f);
    if (m_group == OFF_DIM(0) || first >= m_end) return;
#endif

#if POSITIONS
    const int all_steps = (int)((taps + CHUNKS - 1) / CHUNKS);
#else
    const int steps_of_position = (int)((ic + TILE_K - 1) / TILE_K), all_steps = steps_of_position * (int)taps;
#endif
#if PARTS
    const int first_step = (int)get_group_id(2) * steps_per_part;
    const int steps = min(steps_per_part, all_steps - first_step);
#else
    const int first_step = 0, steps = all_steps;
#endif

    // What this work-item copies: `piece` of rows COPY_ROW(j), at `position`, or of the channels from i0 on; of left
    // factors `left_piece`, of LEFT_BYTES, of rows LEFT_ROW(j).
#if POSITIONS
    idx_t position = first_step * (idx_t)CHUNKS + piece;
#else
    idx_t i0 = first_step % steps_of_position * (idx_t)TILE_K;
#endif
    int right_bytes[RIGHT_SHARE];  // 16, or 0 outside
#if ROWS_IN_ORDER
    const idx_t base = GROUP_SRC(0, 0, 0, 0, 0) + (first + LEFT_ROW(0)) * SRC_DIM(1);
#else
    idx_t base[LEFT_SHARE];  // where the windows of its positions begin
    int left_bytes[LEFT_SHARE];
#if !POINTWISE
    idx_t d0[LEFT_SHARE], h0[LEFT_SHARE], w0[LEFT_SHARE];
#if !POSITIONS
    const place_t tap = pl_tap(first_step / steps_of_position, window.size[1], window.size[2]);
    int kw = (int)tap.w;
    idx_t dd = tap.d * (idx_t)window.dilation[0], hh = tap.h * (idx_t)window.dilation[1];
    idx_t ww = tap.w * (idx_t)window.dilation[2];
#endif
#endif
    _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) {
        const idx_t q = first + LEFT_ROW(j);
        const place_t at = POSITION_IN(DST, q);
        const idx_t front = at.d * window.stride[0] - WINDOW_BEGIN(0);
        const idx_t top = at.h * window.stride[1] - WINDOW_BEGIN(1), left = at.w * window.stride[2] - WINDOW_BEGIN(2);
        base[j] = GROUP_SRC(at.n, 0, 0, 0, 0) + PLACES_APART(SRC, front, top, left);
#if POINTWISE
        left_bytes[j] = q < ROWS_END ? LEFT_BYTES : 0;
#else
        d0[j] = front;
        h0[j] = q < pixels ? top : SRC_DIM(3);
        w0[j] = left;
#endif
    }
#endif
#if POINTWISE
    idx_t left_at = i0 + left_piece * LEFT_ELEMENTS;
#else
    idx_t left_at;
    LOOK_AT_POSITION()
#endif
    const idx_t right_pitch = MMA_GROUP / CHUNKS * row_weights;
    idx_t right_at = GROUP_WEI + (o0 + COPY_ROW(0)) * row_weights + piece * CHUNK_ELEMENTS;
#if POSITIONS
    right_at += first_step * (idx_t)TILE_K;
#else
    right_at += first_step / steps_of_position * wei_ic + i0;
#endif
    _Pragma("unroll") for (int j = 0; j < RIGHT_SHARE; ++j) right_bytes[j] = o0 + COPY_ROW(j) < o_end ? 16 : 0;
    const tiles_place all_tiles = TILES_PLACE(tiles), copies = AT_SLOT(all_tiles, SLOT(COPY_ROW(0), piece));
    tiles_place left_copies[LEFT_WAYS];
    _Pragma("unroll") for (int j = 0; j < LEFT_WAYS; ++j) left_copies[j] =
        AT_SLOT(all_tiles, SLOT(LEFT_ROW(j), left_piece / LEFT_PARTS));

    MMA_ACCUMULATORS(acc);
#if NVIDIA_PTX != 2
    _Pragma("unroll") for (int i = 0; i < MMA_ROWS; ++i)
        _Pragma("unroll") for (int j = 0; j < MMA_COLUMNS; ++j) MMA_ZERO(acc, i, j);
#endif
#if MMA_HELD
    left_copy left_held[LEFT_SHARE];
    uint4 right_held[RIGHT_SHARE];
#endif
    _Pragma("unroll") for (int s = 0; s < STEPS_AHEAD; ++s) {
        if (s < steps) {
            COPY_STEP(s)
            END_COPIES(s)
        }
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
#if MMA_HELD
        if (step + STEPS_AHEAD < steps) END_COPIES(later)
#endif
        now = now + 1 == STAGES ? 0 : now + 1;
        later = later + 1 == STAGES ? 0 : later + 1;
    }
    MULTIPLY_LAST(acc)

    __local float* staged = (__local float*)tiles;
    // No strip of this work-item lies outside; where its strips are below each other others' may.
    const bool whole = STAGED_STRIPS % MMA_GROUP == 0 && first + TILE_M <= ROWS_END &&
                       (MMA_GROUP % STRIPS_ACROSS == 0 ? o0 + STRIP_COLUMN(0) < o_end : o0 + TILE_N <= o_end);
    // Blocks of rows of all warps, one after the other; what follows is there once.
    _Pragma("unroll 1") for (int i_part = 0; i_part < MMA_ROWS * STAGES_OF_SUMS; ++i_part) {
        const int block = i_part / STAGES_OF_SUMS, part = i_part % STAGES_OF_SUMS;
        strip residual[BATCH];
        if (whole) LOAD_RESIDUALS(0)  // on their way while the sums are staged
        barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("unroll") for (int i = 0; i < MMA_ROWS; ++i)
            if (i == block) STAGE_SUMS(staged, acc, i, part)
        barrier(CLK_LOCAL_MEM_FENCE);
#if !MMA_IS_EXACT
        _Pragma("unroll 1") for (int e = 0; e < SHARE; ++e) {
            const idx_t q = first + STAGED_ROW(block, part, STRIP_ROW(e)), o = o0 + STRIP_COLUMN(e);
            if (!IS_STRIP(e) || q >= ROWS_END || o >= o_end || IS_FINITE(STAGED_STRIP(e))) continue;
            const place_t at = POSITION_IN(DST, q);
            float again[FINISHED] = {0.0f};
            for (int step = first_step * AGAIN; step < (first_step + steps) * AGAIN; ++step) {
#if POSITIONS
                const idx_t k = step, from = 0, to = k < taps ? ic : 0;
#else
                const idx_t k = step / steps_of_position, from = step % steps_of_position * (idx_t)TILE_K,
                            to = min(from + TILE_K, ic);
#endif
                const place_t tap = pl_tap(k, window.size[1], window.size[2]);
                const idx_t z = at.d * window.stride[0] - WINDOW_BEGIN(0) + tap.d * window.dilation[0];
                const idx_t y = at.h * window.stride[1] - WINDOW_BEGIN(1) + tap.h * window.dilation[1];
                const idx_t x = at.w * window.stride[2] - WINDOW_BEGIN(2) + tap.w * window.dilation[2];
                if (!IN_POSITIONS(SRC, z, y, x)) continue;
                for (int s = 0; s < FINISHED; ++s)
                    for (idx_t c = from; c < to; ++c)
                        again[s] = fma(LOAD(SRC, src, GROUP_SRC(at.n, c, z, y, x)),
                                       LOAD(WEI, wei, GROUP_WEI + (o + s) * row_weights + k * wei_ic + c), again[s]);
            }
            STAGED_STRIP(e) = STRIP_OF(again);
        }
#endif
        if (whole) {
            _Pragma("unroll 1") for (int from = 0; from < SHARE; from += BATCH) {
                strip sum[BATCH];
                _Pragma("unroll") for (int k = 0; k < BATCH; ++k) sum[k] = STAGED_STRIP(from + k);
                _Pragma("unroll") for (int k = 0; k < BATCH; ++k)
                    JOIN_RESIDUAL(sum[k], residual[k], o0 + STRIP_COLUMN(from + k));
                if (from + BATCH < SHARE) LOAD_RESIDUALS(from + BATCH)
                _Pragma("unroll") for (int k = 0; k < BATCH; ++k)
                    STORE_STRIP(PLACE(from + k), o0 + STRIP_COLUMN(from + k), sum[k]);
            }
        }
        const int share = whole ? 0 : SHARE;
        _Pragma("unroll 1") for (int e = 0; e < share; ++e) {
            const idx_t q = first + STAGED_ROW(block, part, STRIP_ROW(e)), o = o0 + STRIP_COLUMN(e);
            if (!IS_STRIP(e) || q >= ROWS_END || o >= STORED_END) continue;
#if DST_BLOCK(1) > 1
            if (o >= o_end) {
                STORE_ZEROS(PLACE(e));
                continue;
            }
#endif
            strip sum = STAGED_STRIP(e);
            JOIN_RESIDUAL(sum, RESIDUAL(PLACE(e)), o);
            STORE_STRIP(PLACE(e), o, sum);
        }
    }
}
