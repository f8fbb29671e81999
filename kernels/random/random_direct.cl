// Random numbers that depend on a seed and on an element's number alone, any layout.
//
// w is word i % 4 of Philox4x32-10 with counter c + i / 4 and key k; k is the first element of seed, c the second, or 0;
// i numbers the elements in the order of their dimensions.  RANDOM(words, i) makes the number of them:
//
//   RANDOM_UNIFORM       low + (high - low) u, u the upper DIGITS bits of w over 2^DIGITS; a: low, b: high, c: high - low
//   RANDOM_NORMAL        a + b z, z = r cos(t) for even i, r sin(t) for odd, r and t of the two words of the pair
//   RANDOM_EXPONENTIAL   -log(v) / a
//   RANDOM_BERNOULLI     w < count
//   RANDOM_INTEGERS      low + w mod count
//   RANDOM_WIDE          the same of two words an element, with counter c + i / 2; count 0 means 2^64
//
// Tensors: the seed, s64; DST in any layout.  NUMBER_OF(i) is the number of the element at i0, i1, ...
// One work-item writes one element of dst, padding (as zero) included; neighbours write neighbours in memory.
#include "common/tensor.clh"
#include "common/philox.clh"

#ifndef DST_DTYPE  // on its own: f32, plain, one dimension
#define DST_DTYPE f32
#define DST_AT(i) PLAIN_OFFSET1(dst, i##0)
#define DST_INSIDE(i) 1
#define DST_INDICES(place, i) const idx_t i##0 = (place);
#define NUMBER_OF(i) ((ulong)i##0)
#define RANDOM RANDOM_UNIFORM
#define EACH 4
#define DIGITS 24
#endif

#define ROUNDED_f32(x) (x)
#define ROUNDED_f16(x) pl_as_f16(x)
#define ROUNDED_bf16(x) as_float((uint)float_to_bf16(x) << 16)
static inline float pl_as_f16(float x) {
    ushort bits;
    vstore_half_rte(x, 0, (half*)&bits);
    return vload_half(0, (const half*)&bits);
}

// Greater than 0 and less than 1.
static inline float pl_between(uint word) { return (float)(2 * (word >> 9) + 1) * 0x1p-24f; }

static inline float pl_uniform(float value, float low, float high) { return value >= high ? low : value; }
static inline float pl_normal(uint4 words, int number, float mean, float deviation) {
    const float radius = sqrt(-2.0f * log(pl_between(number < 2 ? words.x : words.z)));
    const float angle = 6.2831853f * (pl_between(number < 2 ? words.y : words.w) - 0.5f);
    return fma(deviation, radius * ((number & 1) ? sin(angle) : cos(angle)), mean);
}
static inline long pl_integer(ulong word, ulong count, long low) {
    return (long)((ulong)low + (count ? word % count : word));
}

#define RANDOM_UNIFORM(words, n)                                                                            \
    pl_uniform(PL_CAT(ROUNDED_, DST_DTYPE)(fma(c, (float)(pl_word(words, n) >> (32 - DIGITS)) * STEP, a)), a, b)
#define STEP (1.0f / (float)(1 << DIGITS))
#define RANDOM_NORMAL(words, n) pl_normal(words, n, a, b)
#define RANDOM_EXPONENTIAL(words, n) (-log(pl_between(pl_word(words, n))) / a)
#define RANDOM_BERNOULLI(words, n) (long)(pl_word(words, n) < count)
#define RANDOM_INTEGERS(words, n) pl_integer(pl_word(words, n), count, low)
#define RANDOM_WIDE(words, n) \
    pl_integer(n ? (ulong)words.z | (ulong)words.w << 32 : (ulong)words.x | (ulong)words.y << 32, count, low)

// As STORE_WRAP does, of floats too.
#define STORED_float(o, v) STORE(DST, dst, o, v)
#define STORED_long(o, v) STORE_WRAP(DST, dst, o, v)
#ifndef MADE
#define MADE float
#endif

__kernel void random_direct(__global const long* restrict seed, TENSOR_OUT(DST, dst), const float a, const float b,
                            const float c, const long low, const ulong count, const idx_t places) {
    const idx_t place = (idx_t)get_global_id(0);
    if (place >= places) return;
    DST_INDICES(place, i)
    MADE y = 0;
    if (DST_INSIDE(i)) {
        const ulong number = NUMBER_OF(i);
        const uint4 words = pl_philox(PHILOX_FIRST(seed) + number / EACH, 0, (ulong)seed[0]);
        y = RANDOM(words, (int)(number % EACH));
    }
    PL_CAT(STORED_, MADE)(DST_AT(i), y);
}
