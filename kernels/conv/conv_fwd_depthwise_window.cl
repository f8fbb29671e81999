// Depthwise convolution, channels innermost, a tile of positions of some channels a work-item: for GPUs.
//
//   dst[n, c, q] = activation(sum over k of src[n, c, q * stride - begin + k * dilation] * wei[c, k]
//                             + bias[c] + res[n, c, q])
// with q, k positions in (h, w); src is zero outside.
//
// Tensors: SRC (n, c, 1, h, w), DST (n, c, 1, h, w) and RES with channels innermost (NHWC, dense), WEI (c, 1, 1, kh,
// kw) with channels innermost too (hwo), BIAS (c).  c is a multiple of VECTOR.
//
// A work-item computes TILE_H x TILE_W positions of VECTOR channels; neighbours have neighbouring channels, and the
// next ones neighbouring tiles, so that what windows share is in the first cache.  It goes down the rows of src that
// its tile reaches: each is read once, while the one before is multiplied, and used for every sum that it belongs to;
// a row of weights is read when the first row of sums meets it.  Kernel size, stride and dilation are constants, so
// all loops are unrolled; with sizes and strides of the tensors constants too, columns are at constant distances.
// Work-item ids: 0 vectors of channels, 1 tiles, in the order of (n, h, w).
#include "common/epilogue.clh"
#include "common/window.clh"

#ifndef SRC_DTYPE  // on its own: f32, NHWC
#define SRC_DTYPE f32
#define SRC_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(src, n, c, d, h, w)
#define SRC_DIM(i) PLAIN_DIM(src, i)
#define SRC_STRIDE(i) PLAIN_STRIDE(src, i)
#define WEI_DTYPE f32
#define WEI_BASE (wei_arg.offset)
#define DST_DTYPE f32
#define DST_OFFSET(n, c, d, h, w) PLAIN_OFFSET5(dst, n, c, d, h, w)
#define DST_DIM(i) PLAIN_DIM(dst, i)
#endif
#ifndef KERNEL_H
#define KERNEL_H 3  // rows of the kernel: 1 to 7
#endif
#ifndef KERNEL_W
#define KERNEL_W 3  // columns of the kernel: 1 to 7
#endif
#ifndef STRIDE_H
#define STRIDE_H 1  // the op's: 1 to 4
#endif
#ifndef STRIDE_W
#define STRIDE_W 1  // the op's: 1 to 4
#endif
#ifndef DILATION_H
#define DILATION_H 1  // the op's: 1, 2, 4
#endif
#ifndef DILATION_W
#define DILATION_W 1  // the op's: 1, 2, 4
#endif
#ifndef VECTOR
#define VECTOR 4  // channels a work-item: 2, 4
#endif
#ifndef TILE_H
#define TILE_H 2  // rows a work-item: 1, 2, 4
#endif
#ifndef TILE_W
#define TILE_W 2  // columns a work-item: 1, 2, 4, 7, 8
#endif

#define SPAN_H ((TILE_H - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1)  // rows of src that a tile reaches
#define SPAN_W ((TILE_W - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W + 1)

// VECTOR channels as they are in memory, and as numbers.  On NVIDIA a load that lies outside is not executed, without a
// branch: one in its place would keep loads from being on their way together.
#if VECTOR == 2
#define FLOATS float2
#define SHORTS ushort2
#define FROM_SHORTS(piece) as_float2(convert_uint2(piece) << 16)
#else
#define FLOATS float4
#define SHORTS ushort4
#define FROM_SHORTS(piece) as_float4(convert_uint4(piece) << 16)
#endif
#ifdef PL_NVIDIA
#define PL_PREDICATED "{.reg .pred p; setp.ne.u32 p, %[inside], 0; "
static inline float2 pl_inside_f32_2(__global const float* from, uint inside) {
    float a, b;
    asm(PL_PREDICATED "mov.b32 %0, 0; mov.b32 %1, 0; @p ld.global.nc.v2.f32 {%0, %1}, [%[from]];}"
        : "=&f"(a), "=&f"(b)
        : [from] "l"((ulong)from), [inside] "r"(inside));
    return (float2)(a, b);
}
static inline float4 pl_inside_f32_4(__global const float* from, uint inside) {
    float a, b, c, d;
    asm(PL_PREDICATED "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0; "
                      "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%[from]];}"
        : "=&f"(a), "=&f"(b), "=&f"(c), "=&f"(d)
        : [from] "l"((ulong)from), [inside] "r"(inside));
    return (float4)(a, b, c, d);
}
static inline ushort2 pl_inside_16_2(__global const void* from, uint inside) {
    uint a;
    asm(PL_PREDICATED "mov.b32 %0, 0; @p ld.global.nc.u32 %0, [%[from]];}"
        : "=&r"(a)
        : [from] "l"((ulong)from), [inside] "r"(inside));
    return as_ushort2(a);
}
static inline ushort4 pl_inside_16_4(__global const void* from, uint inside) {
    uint a, b;
    asm(PL_PREDICATED "mov.b32 %0, 0; mov.b32 %1, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%[from]];}"
        : "=&r"(a), "=&r"(b)
        : [from] "l"((ulong)from), [inside] "r"(inside));
    return as_ushort4((uint2)(a, b));
}
// Sums are complete here: compilers would move them behind the branches that store them, and keep rows for that.
static inline FLOATS pl_held(FLOATS v) {
    float each[VECTOR];
#if VECTOR == 2
    each[0] = v.s0, each[1] = v.s1;
    asm volatile("" : "+f"(each[0]), "+f"(each[1]));
    return (float2)(each[0], each[1]);
#else
    each[0] = v.s0, each[1] = v.s1, each[2] = v.s2, each[3] = v.s3;
    asm volatile("" : "+f"(each[0]), "+f"(each[1]), "+f"(each[2]), "+f"(each[3]));
    return (float4)(each[0], each[1], each[2], each[3]);
#endif
}
#define HOLD(v) ((v) = pl_held(v))
static inline float2 pl_half_numbers2(ushort2 v) { return (float2)(pl_from_half(v.s0), pl_from_half(v.s1)); }
#define PIECE_f32 FLOATS
#define PIECE_f16 SHORTS
#define PIECE_bf16 SHORTS
#if VECTOR == 2
#define INSIDE_f32 pl_inside_f32_2
#define INSIDE_f16 pl_inside_16_2
#define NUMBERS_f16(piece) pl_half_numbers2(piece)
#else
#define INSIDE_f32 pl_inside_f32_4
#define INSIDE_f16 pl_inside_16_4
#define NUMBERS_f16(piece) pl_from_halves(piece)
#endif
#define INSIDE_bf16 INSIDE_f16
#define PIECE_INSIDE(p, o, inside) PL_CAT(INSIDE_, SRC_DTYPE)((p) + (o), inside)
#else
#define HOLD(v)
#define PIECE_f32 FLOATS
#define PIECE_f16 FLOATS
#define PIECE_bf16 SHORTS
#if VECTOR == 2
#define PIECE_AT_f32(p, o) load_pair_f32(p, o)
#define PIECE_AT_f16(p, o) load_pair_f16(p, o)
#define PIECE_AT_bf16(p, o) (*(__global const lying_ushort2*)((p) + (o)))
#else
#define PIECE_AT_f32(p, o) load_quad_f32(p, o)
#define PIECE_AT_f16(p, o) load_quad_f16(p, o)
#define PIECE_AT_bf16(p, o) (*(__global const lying_ushort4*)((p) + (o)))
#endif
#define PIECE_INSIDE(p, o, inside) ((inside) ? PL_CAT(PIECE_AT_, SRC_DTYPE)(p, o) : (PIECE)(0))
#define NUMBERS_f16(piece) (piece)
#endif
#define NUMBERS_f32(piece) (piece)
#define NUMBERS_bf16(piece) FROM_SHORTS(piece)
#define NUMBERS(piece) PL_CAT(NUMBERS_, SRC_DTYPE)(piece)
#define PIECE PL_CAT(PIECE_, SRC_DTYPE)

#define WEIGHTS(o) NUMBERS(PIECE_INSIDE(wei, o, 1))
#if VECTOR == 4
#define FINISH(value, c, at) EPILOGUE_QUAD(value, c, at)
#define STORE_PIECE(o, v) STORE_QUAD(DST, dst, o, v)
#else
#define FINISH(value, c, at) EPILOGUE_V(VECTOR, value, c, at)
#define STORE_PIECE(o, v) STORE_PAIR(DST, dst, o, v)
#endif

// Row r of those that the tile reaches; `at` is the place of its first column, which may lie outside.
#define LOAD_ROW(row, r)                                                                                          \
    {                                                                                                             \
        const uint inside_ = (uidx_t)(top + (r)) < (uidx_t)SRC_DIM(3) ? columns_inside : 0;                       \
        const idx_t at_ = at + (r)*SRC_STRIDE(3);                                                                 \
        _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s) row[s] =                                               \
            PIECE_INSIDE(src, at_ + s * SRC_STRIDE(4), inside_ & (1u << s));                                      \
    }

__kernel void conv_fwd_depthwise_window(TENSOR_IN(SRC, src), TENSOR_IN(WEI, wei),
                                        TENSOR_OUT(DST, dst) EPILOGUE_PARAMETERS, const window_arg window) {
    const idx_t c = (idx_t)get_global_id(0) * VECTOR;
    const uidx_t tiles_w = ((uidx_t)DST_DIM(4) + TILE_W - 1) / TILE_W;
    const uidx_t tiles_h = ((uidx_t)DST_DIM(3) + TILE_H - 1) / TILE_H;
    const uidx_t tile = (uidx_t)get_global_id(1), tile_row = tile / tiles_w;
    const idx_t first_w = (idx_t)(tile % tiles_w) * TILE_W, first_h = (idx_t)(tile_row % tiles_h) * TILE_H;
    const idx_t n = (idx_t)(tile_row / tiles_h);
    if (c >= DST_DIM(1) || n >= DST_DIM(0)) return;
    const idx_t top = first_h * STRIDE_H - window.begin[1], left = first_w * STRIDE_W - window.begin[2];
    const idx_t at = SRC_OFFSET(n, c, 0, top, left);
    uint columns_inside = 0;
    _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s)
        columns_inside |= (uidx_t)(left + s) < (uidx_t)SRC_DIM(4) ? 1u << s : 0u;

    FLOATS acc[TILE_H][TILE_W], weight[KERNEL_H][KERNEL_W];
    _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) acc[y][x] = (FLOATS)(0.0f);
    PIECE later[SPAN_W];
    LOAD_ROW(later, 0)
    _Pragma("unroll") for (int r = 0; r < SPAN_H; ++r) {
        FLOATS row[SPAN_W];
        _Pragma("unroll") for (int s = 0; s < SPAN_W; ++s) row[s] = NUMBERS(later[s]);
        if (r + 1 < SPAN_H) LOAD_ROW(later, r + 1)
        _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh)
            if (kh * DILATION_H == r)
                _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)
                    weight[kh][kw] = WEIGHTS(WEI_BASE + (kh * KERNEL_W + kw) * DST_DIM(1) + c);
        _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
            _Pragma("unroll") for (int kh = 0; kh < KERNEL_H; ++kh)
                if (y * STRIDE_H + kh * DILATION_H == r)
                    _Pragma("unroll") for (int kw = 0; kw < KERNEL_W; ++kw)
                        _Pragma("unroll") for (int x = 0; x < TILE_W; ++x)
                            acc[y][x] = fma(row[x * STRIDE_W + kw * DILATION_W], weight[kh][kw], acc[y][x]);
    }
    _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) HOLD(acc[y][x]);
    _Pragma("unroll") for (int y = 0; y < TILE_H; ++y)
        _Pragma("unroll") for (int x = 0; x < TILE_W; ++x) {
            const idx_t h = first_h + y, w = first_w + x;
            if ((DST_DIM(3) % TILE_H == 0 || h < DST_DIM(3)) && (DST_DIM(4) % TILE_W == 0 || w < DST_DIM(4)))
                STORE_PIECE(DST_OFFSET(n, c, 0, h, w), FINISH(acc[y][x], c, RES_OFFSET(n, c, 0, h, w)));
        }
}
