// Convolution as an implicit matrix product on NVIDIA's wgmma by persistent work-groups: one on each multiprocessor
// takes tile after tile.  Some of its work-items only copy, the others only multiply.
//
//   dst[n, o, q] = activation(sum over i, k of src[n, i, q * stride - begin + k * dilation] * wei[o, i, k]
//                             + bias[o] + res[n, o, q])
// with q, k positions in (d, h, w); src is zero outside.
//
// Tensors: SRC (n, c, d, h, w) and DST (n, oc, d, h, w) with channels innermost (NDHWC, dense); BIAS (oc); RES as DST.
// With DEPTH 0 there is one plane and one tap along it, and what they would cost is not there (common/positions.clh).
// c, with the zeros behind the last channel that SRC may have, is a multiple of CHUNK_ELEMENTS, oc of 4.  All of MATRIX_DTYPE (16 bits) but BIAS.  `packed` holds the weights as
// conv_fwd_stream_pack.cl writes them: a step's pieces of all output channels lie side by side, in the order in which
// wgmma wants to find them, so that those of a tile are one run, which one work-item copies by one instruction.
//
// The rows of the left matrix are positions in the order of (n, d, h, w); a tile is TILE_M positions of TILE_N channels
// (common/mma.clh), steps go through TILE_K channels, then through kernel positions.  MMA_GROUP work-items multiply,
// COPIERS more copy: STAGES steps are on their way or multiplied at a time, across the end of a tile too, so that
// results are finished while the next tile's first steps arrive.  A stage is handed over by two barriers in local
// memory (mbarrier): `full` when its copies are there, `empty` when all warps have multiplied it.
// No wait is for ever.  Both kinds of work-items count the same tiles and steps, from the kernel's arguments.  A copier
// waits until the last step in its stage is multiplied.  That step needs only copies that were started earlier, by
// copiers that wait for nothing else; so the earliest unfinished step can always proceed.  Copies complete by
// themselves, from addresses within the tensors.  A copy that cannot be made is a fault, which ends the kernel and its
// waits, like any access outside of memory.
// Work-groups do not wait for each other, so that it does not matter how many of them run at a time.
// Tiles are taken in the order of SUPER_M rows of them, column by column.
// Without NVIDIA_PTX 2 the same in plain OpenCL C, one step after the other.
#include "common/epilogue.clh"
#include "common/mma.clh"
#include "common/positions.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, NHWC
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_PADDED(i) PLAIN_DIM(src, i)
#define SRC_STRIDE(i) PLAIN_STRIDE(src, i)
#define DST_DTYPE f32
#define DST_DIM(i) PLAIN_DIM(dst, i)
#define DST_BASE (dst_arg.offset)
#endif
#ifndef POINTWISE
#define POINTWISE 0  // 1: a kernel of one position and no padding: 0, 1
#endif
#ifndef ROWS_IN_ORDER
#define ROWS_IN_ORDER 0  // 1: POINTWISE, and positions of SRC follow each other as those of DST do: 0, 1
#endif
#if ROWS_IN_ORDER && !POINTWISE
#undef POINTWISE
#define POINTWISE 1
#endif
#ifndef WHOLE_STEPS
#define WHOLE_STEPS 0  // 1: c is a multiple of TILE_K: 0, 1
#endif
#ifndef SUPER_M
#define SUPER_M 8  // rows of tiles that are computed column by column: 1, 4, 8, 16
#endif

#define COPIERS 128
#define STREAM_ITEMS (MMA_GROUP + COPIERS)
#define LEFT_SHARE (TILE_M * CHUNKS / COPIERS)  // pieces of a step that a copier copies, of rows LEFT_APART apart
#define LEFT_APART (COPIERS / CHUNKS)
#define LEFT_ROW(j) (copier / CHUNKS + (j)*LEFT_APART)
#if LEFT_APART % MMA_SLOT_ROWS != 0
#error "a copier's pieces do not lie alike in their rows"
#endif
#if NVIDIA_PTX == 2 && ((TILE_M != 64 && TILE_M != 128) || WARPS_M * 16 != TILE_M || WARPS_N != 1 || !LAG || STAGES < 3)
#error "registers are shared out to four or eight warps that multiply, one below the other, whose steps lag"
#endif
#if NVIDIA_PTX == 2 && (CHUNKS != 8 || MMA_BITS != 16)
#error "weights are packed as wgmma wants steps of 128 bytes"
#endif

// The tile `unit`.
#define LOOK_AT_UNIT()                                                                                        \
    const int block = unit / (SUPER_M * tiles_n), in_block = unit % (SUPER_M * tiles_n);                      \
    const int rows = min(SUPER_M, tiles_m - block * SUPER_M);                                                 \
    const idx_t first = (idx_t)(block * SUPER_M + in_block % rows) * TILE_M;                                  \
    const idx_t o0 = (idx_t)(in_block / rows) * TILE_N;

// What a copier knows of a tile: where its rows' windows begin, and which of its pieces exist at the kernel's position.
#define BEGIN_COPIES()                                       \
    idx_t base[LEFT_SHARE];                                  \
    int left_bytes[LEFT_SHARE];                              \
    PLACES_OF_ROWS()                                         \
    _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) { \
        const idx_t q = first + LEFT_ROW(j);                 \
        FIND_ROW(j)                                          \
        PLACE_ROW(j)                                         \
    }                                                        \
    idx_t i0 = 0, left_at = piece * CHUNK_ELEMENTS;          \
    LOOK_AT(0, 0, 0)
#if ROWS_IN_ORDER  // no divisions before the first copy
#define FIND_ROW(j) base[j] = SRC_OFFSET(0, 0, 0, 0, 0) + q * ic;
#else
#define FIND_ROW(j)                                                                                                \
    const place_t at = POSITION_IN(DST, q);                                                                        \
    const idx_t front = at.d * window.stride[0] - window.begin[0];                                                 \
    const idx_t top = at.h * window.stride[1] - window.begin[1], left = at.w * window.stride[2] - window.begin[2]; \
    base[j] = SRC_OFFSET(at.n, 0, 0, 0, 0) + PLACES_APART(SRC, front, top, left);
#endif
#if POINTWISE
#define PLACES_OF_ROWS()
#define PLACE_ROW(j) left_bytes[j] = q < pixels ? 16 : 0;
#define LOOK_AT(dd, hh, ww)
#define NEXT_POSITION()
#else
#define PLACES_OF_ROWS()                                  \
    idx_t d0[LEFT_SHARE], h0[LEFT_SHARE], w0[LEFT_SHARE]; \
    idx_t dd = 0, hh = 0, ww = 0;                         \
    int kw = 0;
#define PLACE_ROW(j)                       \
    d0[j] = front;                         \
    h0[j] = q < pixels ? top : SRC_DIM(3); \
    w0[j] = left;
#define LOOK_AT(dd, hh, ww)                                                \
    _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j) left_bytes[j] = \
        IN_POSITIONS(SRC, d0[j] + (dd), h0[j] + (hh), w0[j] + (ww)) ? 16 : 0;
#define NEXT_POSITION()                                                   \
    {                                                                     \
        ww += window.dilation[2];                                         \
        if (++kw == window.size[2]) {                                     \
            kw = 0, ww = 0;                                               \
            NEXT_LINE(window, dd, hh)                                     \
        }                                                                 \
        left_at = PLACES_APART(SRC, dd, hh, ww) + piece * CHUNK_ELEMENTS; \
        LOOK_AT(dd, hh, ww)                                               \
    }
#endif
#if WHOLE_STEPS
#define IN_STEP(bytes) (bytes)
#else
#define IN_STEP(bytes) (i0 + piece * CHUNK_ELEMENTS < ic ? (bytes) : 0)
#endif
// Starts a copier's copies of left factors into stage `to`, and moves on to the next step.
#define COPY_LEFT_STEP(to)                                                                                      \
    {                                                                                                           \
        const tiles_place stage_ = AT_SLOT(copies, (to)*TILE_SLOTS);                                            \
        _Pragma("unroll") for (int j = 0; j < LEFT_SHARE; ++j)                                                  \
            COPY_ASYNC(AT_SLOT(stage_, j * COPIERS), src + (base[j] + left_at), IN_STEP(left_bytes[j]));        \
        left_at += TILE_K;                                                                                      \
        i0 += TILE_K;                                                                                           \
        if (i0 >= ic) {                                                                                         \
            i0 = 0;                                                                                             \
            NEXT_POSITION()                                                                                     \
        }                                                                                                       \
    }

#if NVIDIA_PTX == 2
#define BATCH (TILE_N > 208 ? 2 : 4)
#ifdef BIAS_DTYPE
#define BIAS_QUAD(o) LOAD_QUAD(BIAS, bias, BIAS_OFFSET(o))
#else
#define BIAS_QUAD(o) ((float4)(0.0f))
#endif
#define BARRIER_INIT(at, count) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "n"(count) : "memory")
#define BARRIER_WAIT(at, parity)                                                                         \
    asm volatile("{.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"        \
                 "@!p bra AGAIN;\n}" ::"r"(at), "r"(parity)                                               \
                 : "memory")
#define BARRIER_ARRIVE(at) \
    asm volatile("{.reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0];}" ::"r"(at) : "memory")
#define BARRIER_EXPECT(at, bytes)                                                                                    \
    asm volatile("{.reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1;}" ::"r"(at), "r"(bytes) \
                 : "memory")
// Arrives when the copies that this work-item has started are there.
#define BARRIER_AFTER_COPIES(at) \
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory")
#define COPY_RUN(to, from, bytes, barrier)                                                                       \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), \
                 "l"((ulong)(from)), "r"(bytes), "r"(barrier)                                                    \
                 : "memory")
#define NEXT_STAGE() \
    if (++stage == STAGES) stage = 0, parity ^= 1
#define STAGE_AT(stage) (all_tiles + (uint)(stage) * (TILE_SLOTS * 16))
#define FULL(stage) (barriers + (uint)(stage) * 16)
#define EMPTY(stage) (barriers + (uint)(stage) * 16 + 8)
static inline float neighbours(const float x) {
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x));
    return y;
}
#endif

__kernel __attribute__((reqd_work_group_size(STREAM_ITEMS, 1, 1)))
void conv_fwd_stream(TENSOR_IN(SRC, src), __global const uint4* restrict packed,
                     TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS, const window_arg window, const idx_t pixels) {
    __local uint4 tiles[STAGES * (TILE_SLOTS + 1)] __attribute__((aligned(MMA_TILES_ALIGNMENT)));
    const int item = (int)get_local_id(0), copier = item - MMA_GROUP, piece = item % CHUNKS;
    const idx_t ic = SRC_PADDED(1), oc = DST_DIM(1);
    const int tiles_n = (int)((oc + TILE_N - 1) / TILE_N), tiles_m = (int)((pixels + TILE_M - 1) / TILE_M);
    const int units = tiles_m * tiles_n;
    const int steps = (int)((ic + TILE_K - 1) / TILE_K) * (int)TAPS_OF(window);
    const tiles_place all_tiles = TILES_PLACE(tiles);
    MMA_ACCUMULATORS(acc);
#if NVIDIA_PTX == 2
    const uint barriers = all_tiles + STAGES * TILE_SLOTS * 16;
    if (item == 0) {
        for (int s = 0; s < STAGES; ++s) {
            BARRIER_INIT(FULL(s), COPIERS + 1);
            BARRIER_INIT(EMPTY(s), MMA_GROUP / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int stage = 0;
    uint parity = 0;
    if (item >= MMA_GROUP) {
        const tiles_place copies = AT_SLOT(all_tiles, SLOT(LEFT_ROW(0), piece));
        for (int unit = (int)get_group_id(0); unit < units; unit += (int)get_num_groups(0)) {
            LOOK_AT_UNIT()
            BEGIN_COPIES()
            const uint run_bytes = (uint)min((idx_t)TILE_N, oc - o0) * (CHUNKS * 16);
            __global const uint4* run = packed + o0 * CHUNKS;
            for (int step = 0; step < steps; ++step) {
                BARRIER_WAIT(EMPTY(stage), parity ^ 1);
                if (copier == 0) {
                    BARRIER_EXPECT(FULL(stage), run_bytes);
                    COPY_RUN(STAGE_AT(stage) + TILE_M * CHUNKS * 16, run, run_bytes, FULL(stage));
                }
                COPY_LEFT_STEP(stage)
                BARRIER_AFTER_COPIES(FULL(stage));
                run += oc * CHUNKS;
                NEXT_STAGE();
            }
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
    } else {
        for (int unit = (int)get_group_id(0); unit < units; unit += (int)get_num_groups(0)) {
            LOOK_AT_UNIT()
            int before = 0;
            for (int step = 0; step < steps; ++step) {
                BARRIER_WAIT(FULL(stage), parity);
                COPY_SHOW();
                MULTIPLY_TILES(all_tiles, stage, step > 0, acc);
                if (LAG ? step > 0 : 1) {  // the unit has read that stage
                    if (PL_LANE == 0) BARRIER_ARRIVE(EMPTY(LAG ? before : stage));
                }
                before = stage;
                NEXT_STAGE();
            }
            MULTIPLY_LAST(acc)
            if (LAG && PL_LANE == 0) BARRIER_ARRIVE(EMPTY(before));
            // Neighbours exchange pairs of columns, so that each has four side by side: accesses of 32 bytes a row.
            const int odd = PL_LANE & 1;
            const idx_t o = o0 + (PL_LANE & 2) * 2 + odd * 8;
            // BATCH columns of blocks at a time, so that what is read for them is on its way together.
            _Pragma("unroll") for (int i = 0; i < MMA_ROWS; ++i)
                _Pragma("unroll") for (int j0 = 0; j0 < MMA_COLUMNS; j0 += 2 * BATCH) {
                    float4 bias_[BATCH], residual[BATCH][2];
                    _Pragma("unroll") for (int k = 0; k < BATCH; ++k) {
                        const idx_t at = o + (j0 + 2 * k) * 8;
                        const bool in = j0 + 2 * k < MMA_COLUMNS && at < oc;
                        bias_[k] = in ? BIAS_QUAD(at) : (float4)(0.0f);
                        _Pragma("unroll") for (int h = 0; h < 2; ++h) {
                            const idx_t q = first + MMA_ROW(i, 2 * h);
                            residual[k][h] =
                                in && q < pixels ? RESIDUAL_QUAD(RES_BASE + (q * oc + at)) : (float4)(0.0f);
                        }
                    }
                    _Pragma("unroll") for (int k = 0; k < BATCH; ++k)
                        _Pragma("unroll") for (int h = 0; h < 2; ++h) {
                            const int j = min(j0 + 2 * k, MMA_COLUMNS - 2), s = 2 * h;
                            const float there0 = neighbours(odd ? acc[i][j][s] : acc[i][j + 1][s]);
                            const float there1 = neighbours(odd ? acc[i][j][s + 1] : acc[i][j + 1][s + 1]);
                            float4 sum = odd ? (float4)(there0, there1, acc[i][j + 1][s], acc[i][j + 1][s + 1])
                                             : (float4)(acc[i][j][s], acc[i][j][s + 1], there0, there1);
                            const idx_t q = first + MMA_ROW(i, s), at = o + (j0 + 2 * k) * 8;
                            if (j0 + 2 * k < MMA_COLUMNS && q < pixels && at < oc) {
#ifdef JOINS_LATE
                                sum = JOIN_RES(before_sum4(sum + bias_[k]), residual[k][h]);
#else
                                JOIN_RESIDUAL_QUAD(sum, residual[k][h], at);
                                sum += bias_[k];
#endif
                                STORE_QUAD(DST, dst, DST_BASE + (q * oc + at), activate4(sum));
                            }
                        }
                }
        }
    }
#else
    for (int unit = (int)get_group_id(0); unit < units; unit += (int)get_num_groups(0)) {
        LOOK_AT_UNIT()
        const tiles_place copies = AT_SLOT(all_tiles, copier < 0 ? 0 : SLOT(LEFT_ROW(0), piece));
        BEGIN_COPIES()
        for (int i = 0; i < MMA_ROWS; ++i)
            for (int j = 0; j < MMA_COLUMNS; ++j) MMA_ZERO(acc, i, j);
        for (int step = 0; step < steps; ++step) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (copier >= 0) {
                const int run = (int)min((idx_t)TILE_N, oc - o0) * CHUNKS;
                for (int e = copier; e < run; e += COPIERS)
                    tiles[TILE_M * CHUNKS + e] = packed[(step * oc + o0) * CHUNKS + e];
                COPY_LEFT_STEP(0)
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (copier < 0) MULTIPLY_TILES(all_tiles, 0, step > 0, acc);
        }
        for (int i = 0; copier < 0 && i < MMA_ROWS; ++i)
            for (int j = 0; j < MMA_COLUMNS; ++j)
                for (int s = 0; s < MMA_SUMS; s += 2) {
                    const idx_t q = first + MMA_ROW(i, s), o = o0 + MMA_COLUMN(j, s), place = q * oc + o;
                    if (q >= pixels || o >= oc) continue;
                    float2 sum = (float2)(acc[i][j][s], acc[i][j][s + 1]);
                    JOIN_RESIDUAL_PAIR(sum, RESIDUAL_PAIR(RES_BASE + place), o);
                    STORE_PAIR(DST, dst, DST_BASE + place, EPILOGUE_PAIR_JOINED(sum, o));
                }
    }
#endif
}
