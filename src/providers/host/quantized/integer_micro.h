// The vector code of integer_kernels.h, compiled once for each instruction set.
//
// The file that includes this sets the instruction set (#pragma GCC target), then PL_INTEGER_NAMESPACE,
// PL_INTEGER_BITS (of a vector: 256 or 512), PL_INTEGER_DOTS (1: with VNNI), PL_INTEGER_PIXELS and
// PL_INTEGER_WIDE_PIXELS (of a tile of two vectors of columns).  Nothing of the standard library may be instantiated
// here: see conv_micro.h.

namespace pl::host::PL_INTEGER_NAMESPACE {
namespace {

#define PL_ALWAYS inline __attribute__((always_inline))

#if PL_INTEGER_BITS == 512
using Ints = __m512i;
using Floats = __m512;
PL_ALWAYS Ints load_ints(const void* p) { return _mm512_loadu_si512(p); }
PL_ALWAYS Ints widened(const int8_t* p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
PL_ALWAYS void store_ints(void* p, Ints v) { _mm512_storeu_si512(p, v); }
PL_ALWAYS Ints all_ints(int32_t value) { return _mm512_set1_epi32(value); }
PL_ALWAYS Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
PL_ALWAYS Ints sub_ints(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
PL_ALWAYS Ints quarter(Ints v) { return _mm512_srai_epi32(v, 2); }
PL_ALWAYS Ints multiply_pairs(Ints a, Ints b) { return _mm512_madd_epi16(a, b); }
PL_ALWAYS Ints add_pairs_of_bytes(Ints x, Ints w) { return _mm512_maddubs_epi16(x, w); }
// The 16 bytes at p, in the order that `order` gives, in each 128 bits.
PL_ALWAYS Ints gathered(const void* p, Ints order) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p))), order);
}
PL_ALWAYS Ints all_shorts(short value) { return _mm512_set1_epi16(value); }
PL_ALWAYS Floats load_floats(const void* p) { return _mm512_loadu_ps(p); }
PL_ALWAYS void store_floats(void* p, Floats v) { _mm512_storeu_ps(p, v); }
PL_ALWAYS Floats all_floats(float value) { return _mm512_set1_ps(value); }
PL_ALWAYS Floats add_floats(Floats a, Floats b) { return _mm512_add_ps(a, b); }
PL_ALWAYS Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
PL_ALWAYS Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
PL_ALWAYS Floats at_most(Floats v, Floats high) { return _mm512_min_ps(v, high); }
PL_ALWAYS Floats clamp(Floats v, Floats low, Floats high) { return _mm512_min_ps(_mm512_max_ps(v, low), high); }
PL_ALWAYS Floats round_floats(Floats v) { return _mm512_roundscale_ps(v, 8); }
PL_ALWAYS Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
PL_ALWAYS Ints to_ints(Floats v) { return _mm512_cvtps_epi32(v); }
PL_ALWAYS Ints of_bytes(const void* p, bool is_signed) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
}
struct Limits {
  Ints least, zero;
};
PL_ALWAYS Limits limits_of(int32_t least, int32_t zero) { return {all_ints(least), all_ints(zero)}; }
// Two vectors of columns of a pixel, 16 bytes each; no value is above what bytes hold.
template <bool Signed>
PL_ALWAYS void store_pixel(char* y, Ints a, Ints b, const Limits& limits) {
  a = add_ints(_mm512_max_epi32(a, limits.least), limits.zero),
  b = add_ints(_mm512_max_epi32(b, limits.least), limits.zero);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm512_cvtepi32_epi8(a));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y + 16), _mm512_cvtepi32_epi8(b));
}
template <bool Signed>
PL_ALWAYS void store_pixels(char* y, char* next, Ints a, Ints b, Ints c, Ints d, const Limits& limits) {
  store_pixel<Signed>(y, a, b, limits);
  store_pixel<Signed>(next, c, d, limits);
}
PL_ALWAYS Ints interleave_low(Ints a, Ints b) { return _mm512_unpacklo_epi16(a, b); }
PL_ALWAYS Ints interleave_high(Ints a, Ints b) { return _mm512_unpackhi_epi16(a, b); }
// Sums of what interleave_low and interleave_high gave, in the order of the columns.
PL_ALWAYS void in_order(Ints& low, Ints& high) {
  const Ints first = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
  const Ints second = _mm512_set_epi32(31, 30, 29, 28, 15, 14, 13, 12, 27, 26, 25, 24, 11, 10, 9, 8);
  const Ints a = _mm512_permutex2var_epi32(low, first, high), b = _mm512_permutex2var_epi32(low, second, high);
  low = a, high = b;
}
#else
using Ints = __m256i;
using Floats = __m256;
PL_ALWAYS Ints load_ints(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
PL_ALWAYS Ints widened(const int8_t* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
PL_ALWAYS void store_ints(void* p, Ints v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
PL_ALWAYS Ints all_ints(int32_t value) { return _mm256_set1_epi32(value); }
PL_ALWAYS Ints add_ints(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
PL_ALWAYS Ints sub_ints(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
PL_ALWAYS Ints quarter(Ints v) { return _mm256_srai_epi32(v, 2); }
PL_ALWAYS Ints multiply_pairs(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
PL_ALWAYS Ints add_pairs_of_bytes(Ints x, Ints w) { return _mm256_maddubs_epi16(x, w); }
// The 16 bytes at p, in the order that `order` gives, in each 128 bits.
PL_ALWAYS Ints gathered(const void* p, Ints order) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p))), order);
}
PL_ALWAYS Ints all_shorts(short value) { return _mm256_set1_epi16(value); }
PL_ALWAYS Floats load_floats(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
PL_ALWAYS void store_floats(void* p, Floats v) { _mm256_storeu_ps(static_cast<float*>(p), v); }
PL_ALWAYS Floats all_floats(float value) { return _mm256_set1_ps(value); }
PL_ALWAYS Floats add_floats(Floats a, Floats b) { return _mm256_add_ps(a, b); }
PL_ALWAYS Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
PL_ALWAYS Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
PL_ALWAYS Floats at_most(Floats v, Floats high) { return _mm256_min_ps(v, high); }
PL_ALWAYS Floats clamp(Floats v, Floats low, Floats high) { return _mm256_min_ps(_mm256_max_ps(v, low), high); }
PL_ALWAYS Floats round_floats(Floats v) { return _mm256_round_ps(v, 8); }
PL_ALWAYS Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
PL_ALWAYS Ints to_ints(Floats v) { return _mm256_cvtps_epi32(v); }
PL_ALWAYS Ints of_bytes(const void* p, bool is_signed) {
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(p));
  return is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
}
struct Limits {
  Ints least, zero;  // in 16 bits, zero points added
};
PL_ALWAYS Limits limits_of(int32_t least, int32_t zero) {
  return {_mm256_set1_epi16(short(least + zero)), _mm256_set1_epi16(short(zero))};
}
// Two vectors of columns of a pixel, and those of the next one, 8 bytes each; no value is above what bytes hold.
template <bool Signed>
PL_ALWAYS void store_pixels(char* y, char* next, Ints a, Ints b, Ints c, Ints d, const Limits& limits) {
  const Ints first = _mm256_max_epi16(_mm256_adds_epi16(_mm256_packs_epi32(a, b), limits.zero), limits.least);
  const Ints second = _mm256_max_epi16(_mm256_adds_epi16(_mm256_packs_epi32(c, d), limits.zero), limits.least);
  // In each half: four columns of a, of b, of c, of d.
  const Ints bytes = Signed ? _mm256_packs_epi16(first, second) : _mm256_packus_epi16(first, second);
  const Ints pixels = _mm256_permutevar8x32_epi32(bytes, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(pixels));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(next), _mm256_extracti128_si256(pixels, 1));
}
template <bool Signed>
PL_ALWAYS void store_pixel(char* y, Ints a, Ints b, const Limits& limits) {
  char unused[16];
  store_pixels<Signed>(y, unused, a, b, a, b, limits);
}
PL_ALWAYS Ints interleave_low(Ints a, Ints b) { return _mm256_unpacklo_epi16(a, b); }
PL_ALWAYS Ints interleave_high(Ints a, Ints b) { return _mm256_unpackhi_epi16(a, b); }
// Sums of what interleave_low and interleave_high gave, in the order of the columns.
PL_ALWAYS void in_order(Ints& low, Ints& high) {
  const Ints a = _mm256_permute2x128_si256(low, high, 0x20), b = _mm256_permute2x128_si256(low, high, 0x31);
  low = a, high = b;
}
#endif

constexpr int kWidth = PL_INTEGER_BITS / 32;
constexpr int kMostVectors = 2;

// sum += t, in the register of the sum: GCC 12 otherwise copies sums between registers, and spills some of them, which
// takes half of the speed.
PL_ALWAYS void accumulate(Ints& sum, Ints t) { asm("vpaddd %1, %0, %0" : "+v"(sum) : "v"(t)); }
// sum += the products of four unsigned by four signed bytes.
PL_ALWAYS void accumulate_bytes(Ints& sum, Ints x, Ints w, [[maybe_unused]] Ints ones) {
#if PL_INTEGER_DOTS
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
#else
  accumulate(sum, multiply_pairs(add_pairs_of_bytes(x, w), ones));
#endif
}

PL_ALWAYS void copy_part(char* to, const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) to[i] = from[i];
}

// Post-ops of P pixels, from `pixel` on, and V vectors of columns, from `column` on, `count` of them.
template <int P, int V>
PL_ALWAYS void apply_steps(Floats (&reals)[P][V], const IntegerResult& result, int64_t pixel, int64_t column,
                           int count) {
  const auto all = [&](auto function) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) reals[p][v] = function(reals[p][v]);
  };
  for (int s = 0; s < result.step_count; ++s) {
    const IntegerStep& step = result.steps[s];
    switch (step.kind) {
      case IntegerStep::Kind::scale: {
        const Floats factor = all_floats(step.factor);
        all([&](Floats x) { return multiply(x, factor); });
        break;
      }
      case IntegerStep::Kind::clamp: {
        const Floats low = all_floats(step.low), high = all_floats(step.high);
        all([&](Floats x) { return clamp(x, low, high); });
        break;
      }
      case IntegerStep::Kind::round: {
        const Floats low = all_floats(step.low), high = all_floats(step.high), factor = all_floats(step.factor);
        all([&](Floats x) { return multiply(clamp(round_floats(x), low, high), factor); });
        break;
      }
      case IntegerStep::Kind::add: {
        const Floats scale = all_floats(result.addend_scale), zero = all_floats(-result.addend_zero);
        const char* from = static_cast<const char*>(result.addend) + pixel * result.pixel + column;
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p, from += result.pixel) {
          char part[V * kWidth] = {};
          const char* bytes = from;
          if (count < V * kWidth) {
            copy_part(part, from, count);
            bytes = part;
          }
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) {
            const Floats added = add_floats(to_floats(of_bytes(bytes + v * kWidth, result.signed_addend)), zero);
            reals[p][v] = multiply_add(added, scale, reals[p][v]);
          }
        }
        break;
      }
      case IntegerStep::Kind::other: {
        alignas(64) float values[P * V * kWidth];
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) store_floats(values + (p * V + v) * kWidth, reals[p][v]);
        step.other(values, values, P * V * kWidth, step.alpha, step.beta);
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) reals[p][v] = load_floats(values + (p * V + v) * kWidth);
        break;
      }
    }
  }
}

template <bool Signed, int P, int V>
PL_ALWAYS void store_rounded(char* y, const Ints (&rounded)[P][2], const IntegerResult& result, int count) {
  const Limits limits = limits_of(result.low, result.zero);
  const int64_t step = result.pixel;
  if (V == 2 && count == 2 * kWidth) {
#pragma GCC unroll 16
    for (int p = 0; p + 1 < P; p += 2)
      store_pixels<Signed>(y + p * step, y + (p + 1) * step, rounded[p][0], rounded[p][1], rounded[p + 1][0],
                           rounded[p + 1][1], limits);
    if (P % 2) store_pixel<Signed>(y + (P - 1) * step, rounded[P - 1][0], rounded[P - 1][1], limits);
    return;
  }
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
    char part[2 * kWidth];
    store_pixel<Signed>(part, rounded[p][0], rounded[p][1], limits);
    copy_part(y + p * step, part, count);
  }
}

// What results of 32 bits are.
struct SumWords {
  using Word = int32_t;
  using Vector = Ints;
  static PL_ALWAYS void store(Word* p, Vector v) { store_ints(p, v); }
};
struct RealWords {
  using Word = float;
  using Vector = Floats;
  static PL_ALWAYS void store(Word* p, Vector v) { store_floats(p, v); }
};
// The first `count` columns of P pixels.
template <class Words, int P, int V>
PL_ALWAYS void store_words(const typename Words::Vector (&values)[P][V], const IntegerResult& result, int64_t pixel,
                           int64_t column, int count) {
  typename Words::Word* y = static_cast<typename Words::Word*>(result.y) + pixel * result.pixel + column;
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p, y += result.pixel) {
    if (count == V * kWidth) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) Words::store(y + v * kWidth, values[p][v]);
    } else {
      typename Words::Word part[V * kWidth];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) Words::store(part + v * kWidth, values[p][v]);
      copy_part(reinterpret_cast<char*>(y), reinterpret_cast<const char*>(part), int64_t(sizeof part[0]) * count);
    }
  }
}

// What becomes of the sums of P pixels, from `pixel` on, and V vectors of columns, from `column` on, `count` of them.
template <int P, int V>
PL_ALWAYS void finish(Ints (&sums)[P][V], const IntegerResult& result, int64_t pixel, int64_t column, int count) {
  using Form = IntegerResult::Form;
  if (result.form == Form::sums) {
    store_words<SumWords>(sums, result, pixel, column, count);
    return;
  }
  Floats reals[P][V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Floats factor = load_floats(result.factor + column + v * kWidth);
    const Floats bias = result.bias ? load_floats(result.bias + column + v * kWidth) : all_floats(0);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) reals[p][v] = multiply_add(to_floats(sums[p][v]), factor, bias);
  }
  apply_steps<P, V>(reals, result, pixel, column, count);
  if (result.form == Form::reals) {
    store_words<RealWords>(reals, result, pixel, column, count);
    return;
  }
  Ints rounded[P][2];
  const Floats high = all_floats(result.high);
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
    rounded[p][0] = to_ints(at_most(reals[p][0], high));
    rounded[p][1] = V == 1 ? rounded[p][0] : to_ints(at_most(reals[p][V - 1], high));
  }
  char* y = static_cast<char*>(result.y) + pixel * result.pixel + column;
  if (result.form == Form::signed_bytes)
    store_rounded<true, P, V>(y, rounded, result, count);
  else
    store_rounded<false, P, V>(y, rounded, result, count);
}

// Initial sums.
template <int P, int V>
PL_ALWAYS void start(Ints (&sums)[P][V], const IntegerResult& result, int64_t column) {
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Ints initial = result.initial ? load_ints(result.initial + column + v * kWidth) : all_ints(0);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) sums[p][v] = initial;
  }
}

PL_ALWAYS Ints repeat(const void* p) {
  int32_t value;
  __builtin_memcpy(&value, p, sizeof value);
  return all_ints(value);
}

template <int P, int V>
void product_tile(const IntegerProduct& job, int64_t pixel, int64_t vector, int count) {
  const int64_t panel = vector / kMostVectors;
  const int32_t* places = job.places + panel * job.steps;
  const int64_t plain_steps = job.plain_steps[panel], narrow_steps = job.narrow_steps[panel];
  const int8_t* w = job.weights + vector * job.steps * 4 * kWidth;
  Ints sums[P][V];
  start<P, V>(sums, job.result, vector * kWidth);
  {
    const uint8_t* x[P];
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) x[p] = job.narrow + job.offsets[pixel + p];
    const Ints ones = all_shorts(1);
    int64_t step = 0;
    for (; step < plain_steps; ++step, w += V * 4 * kWidth) {
      const int64_t place = places[step];
      Ints filter[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) filter[v] = load_ints(w + v * 4 * kWidth);
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) {
        const Ints value = repeat(x[p] + place);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) accumulate_bytes(sums[p][v], value, filter[v], ones);
      }
    }
#if !PL_INTEGER_DOTS
    const int32_t* orders = job.orders + panel * job.steps;
    for (; step < narrow_steps; ++step, w += V * 4 * kWidth) {
      const int64_t place = places[step];
      const Ints order = repeat(orders + step);
      Ints filter[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) filter[v] = load_ints(w + v * 4 * kWidth);
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) {
        const Ints value = gathered(x[p] + place, order);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) accumulate_bytes(sums[p][v], value, filter[v], ones);
      }
    }
#endif
  }
  if (narrow_steps < job.steps) {
    const int16_t* x[P];
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) x[p] = job.wide + job.offsets[pixel + p];
    for (int64_t step = narrow_steps; step < job.steps; ++step) {
      const int64_t place = places[step];
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half, w += V * 2 * kWidth) {
        Ints filter[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) filter[v] = widened(w + v * 2 * kWidth);
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) {
          const Ints value = repeat(x[p] + place + 2 * half);
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) accumulate(sums[p][v], multiply_pairs(value, filter[v]));
        }
      }
    }
  }
  finish<P, V>(sums, job.result, pixel, vector * kWidth, count);
}

template <int P, int V>
void wide_tile(const WideProduct& job, int64_t pixel, int64_t vector, int count) {
  const int16_t* x[P];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) x[p] = job.x + job.offsets[pixel + p];
  const int16_t* w = job.weights;
  Ints sums[P][V];
  start<P, V>(sums, job.result, vector * kWidth);
  for (int64_t k = 0; k < job.depth; k += 2, w += V * 2 * kWidth) {
    Ints filter[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) filter[v] = load_ints(w + v * 2 * kWidth);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      const Ints value = repeat(x[p] + k);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) accumulate(sums[p][v], multiply_pairs(value, filter[v]));
    }
  }
  finish<P, V>(sums, job.result, pixel, vector * kWidth, count);
}

template <class Job, int Most>
struct Tiles {
  using Tile = void (*)(const Job&, int64_t, int64_t, int);
  Tile tile[kMostVectors + 1][Most + 1] = {};
};
template <int V, int P, int Most>
constexpr void fill_tiles(Tiles<IntegerProduct, Most>& tiles) {
  tiles.tile[V][P] = product_tile<P, V>;
  if constexpr (P > 1) fill_tiles<V, P - 1>(tiles);
}
template <int V, int P, int Most>
constexpr void fill_tiles(Tiles<WideProduct, Most>& tiles) {
  tiles.tile[V][P] = wide_tile<P, V>;
  if constexpr (P > 1) fill_tiles<V, P - 1>(tiles);
}
template <class Job, int Most>
constexpr Tiles<Job, Most> tiles_of() {
  Tiles<Job, Most> tiles;
  fill_tiles<1, Most>(tiles);
  fill_tiles<2, Most>(tiles);
  return tiles;
}

template <class Job, int Most>
PL_ALWAYS void all_tiles(const Tiles<Job, Most>& table, const Job& job, int64_t first, int64_t last,
                         int64_t first_vector, int64_t last_vector) {
  // Tiles as equal as can be: one of a single pixel takes as long as one of several.
  const int64_t pixels = last - first, count_of_tiles = (pixels + Most - 1) / Most;
  for (int64_t vector = first_vector; vector < last_vector; vector += kMostVectors) {
    const int vectors = int(last_vector - vector < kMostVectors ? last_vector - vector : kMostVectors);
    const int64_t left = job.columns - vector * kWidth;
    const int count = int(left < vectors * kWidth ? left : vectors * kWidth);
    for (int64_t tile = 0; tile < count_of_tiles; ++tile) {
      const int64_t begin = pixels * tile / count_of_tiles, end = pixels * (tile + 1) / count_of_tiles;
      table.tile[vectors][end - begin](job, first + begin, vector, count);
    }
  }
}

constexpr auto kProductTiles = tiles_of<IntegerProduct, PL_INTEGER_PIXELS>();
constexpr auto kWideTiles = tiles_of<WideProduct, PL_INTEGER_WIDE_PIXELS>();

void product(const IntegerProduct& job, int64_t first, int64_t last, int64_t first_vector, int64_t last_vector) {
  all_tiles(kProductTiles, job, first, last, first_vector, last_vector);
}
void wide_product(const WideProduct& job, int64_t first, int64_t last, int64_t first_vector, int64_t last_vector) {
  all_tiles(kWideTiles, job, first, last, first_vector, last_vector);
}

// Two vectors of channels: of taps t and t + 1 they are interleaved, so that a multiplication adds the two products.
// Taps: their number, where the compiler is to know it; 0: any.
template <int P, int Taps>
PL_ALWAYS void depthwise_tile(const IntegerDepthwise& job, int64_t pixel, int64_t vector, int count) {
  const int64_t column = vector * 2 * kWidth, taps = Taps ? Taps : job.tap_count;
  const int16_t* w = job.weights + vector * taps * 2 * kWidth;
  const int16_t* x[P];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) x[p] = job.x + job.offsets[pixel + p] + column;
  Ints sums[P][2];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) sums[p][0] = sums[p][1] = all_ints(0);
#pragma GCC unroll 8
  for (int64_t t = 0; t < taps; t += 2, w += 4 * kWidth) {
    const Ints low = load_ints(w), high = load_ints(w + 2 * kWidth);
    const int64_t first = job.taps[t], second = job.taps[t + 1];
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      Ints a = load_ints(x[p] + first), b = load_ints(x[p] + second);
      asm("" : "+v"(a), "+v"(b));  // GCC would load both twice
      accumulate(sums[p][0], multiply_pairs(interleave_low(a, b), low));
      accumulate(sums[p][1], multiply_pairs(interleave_high(a, b), high));
    }
  }
  Ints initial[1][2];
  start<1, 2>(initial, job.result, column);
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
    in_order(sums[p][0], sums[p][1]);
    sums[p][0] = add_ints(sums[p][0], initial[0][0]), sums[p][1] = add_ints(sums[p][1], initial[0][1]);
  }
  finish<P, 2>(sums, job.result, pixel, column, count);
}

template <int Taps>
void depthwise_pixels(const IntegerDepthwise& job, int64_t first, int64_t last) {
  constexpr int kPixels = 4;
  for (int64_t vector = 0; vector * 2 * kWidth < job.columns; ++vector) {
    const int64_t left = job.columns - vector * 2 * kWidth;
    const int count = int(left < 2 * kWidth ? left : 2 * kWidth);
    int64_t pixel = first;
    for (; pixel + kPixels <= last; pixel += kPixels) depthwise_tile<kPixels, Taps>(job, pixel, vector, count);
    for (; pixel < last; ++pixel) depthwise_tile<1, Taps>(job, pixel, vector, count);
  }
}

void depthwise(const IntegerDepthwise& job, int64_t first, int64_t last) {
  (job.tap_count == 10 ? depthwise_pixels<10> : depthwise_pixels<0>)(job, first, last);
}

template <int V>
void end_tiles(const IntegerTiles& job, int64_t vector, int count) {
  const int64_t column = vector * kWidth;
  for (int64_t t = 0; t < job.tiles; ++t) {
    Ints y[2][2][V];
    start<2, V>(y[0], job.result, column);
    start<2, V>(y[1], job.result, column);
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      const int32_t* from = job.products + t * job.pitch + v * kWidth;
      Ints rows[2][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        Ints m[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) m[i] = load_ints(from + (i * 4 + j) * job.tiles * job.pitch);
        rows[0][j] = add_ints(add_ints(m[0], m[1]), m[2]);
        rows[1][j] = sub_ints(sub_ints(m[1], m[2]), m[3]);
      }
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        y[i][0][v] = add_ints(y[i][0][v], quarter(add_ints(add_ints(rows[i][0], rows[i][1]), rows[i][2])));
        y[i][1][v] = add_ints(y[i][1][v], quarter(sub_ints(sub_ints(rows[i][1], rows[i][2]), rows[i][3])));
      }
    }
    const IntegerTiles::Place& place = job.places[t];
    for (int i = 0; i < place.rows; ++i) {
      const int64_t pixel = place.pixel + i * job.row;
      if (place.columns == 2) {
        finish<2, V>(y[i], job.result, pixel, column, count);
      } else {
        Ints first[1][V];
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) first[0][v] = y[i][0][v];
        finish<1, V>(first, job.result, pixel, column, count);
      }
    }
  }
}

void tiles(const IntegerTiles& job, int64_t first_vector, int64_t last_vector) {
  const int vectors = int(last_vector - first_vector);
  const int64_t left = job.columns - first_vector * kWidth;
  const int count = int(left < vectors * kWidth ? left : vectors * kWidth);
  (vectors == 2 ? end_tiles<2> : end_tiles<1>)(job, first_vector, count);
}

constexpr IntegerKernels kIntegerKernels = {PL_INTEGER_ISA, kWidth, !PL_INTEGER_DOTS, product, wide_product,
                                            depthwise,      tiles};

}  // namespace
}  // namespace pl::host::PL_INTEGER_NAMESPACE
