// The vector code of conv_kernels.h, compiled once for each instruction set.
//
// The file that includes this sets the instruction set (#pragma GCC target), then PL_CONV_NAMESPACE, PL_CONV_WIDTH
// (floats a vector), PL_CONV_TILES (the numbers of ConvKernels that speak of tiles), PL_CONV_MASKS (512, 256: of which
// instruction set the masked loads are; 0: none) and PL_CONV_GROUPS (1: lanes are permuted by one instruction, so that
// groups of channels pay); everything here lies in that namespace.  Nothing of the standard library may be instantiated
// here: the linker keeps one copy of a template function for all files, and it could be the one that older processors
// cannot run.
//
// No include guard on purpose: one file may hold several instruction sets.

namespace pl::host::PL_CONV_NAMESPACE {
namespace {

constexpr int kWidth = PL_CONV_WIDTH;
constexpr int kLine = 16;  // floats of a cache line
using Vec = float __attribute__((vector_size(PL_CONV_WIDTH * 4)));
using Lanes = int __attribute__((vector_size(PL_CONV_WIDTH * 4)));  // -1 and 0: the result of a comparison
using Unaligned = float __attribute__((vector_size(PL_CONV_WIDTH * 4), aligned(4), may_alias));

alignas(64) constexpr float kZeros[kWidth] = {};  // what lies beside the image

#define PL_ALWAYS inline __attribute__((always_inline))
#ifdef __clang__
#define PL_ONE_COPY __attribute__((noinline))
#else
#define PL_ONE_COPY __attribute__((noinline, noclone))
#endif

PL_ALWAYS Vec load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
PL_ALWAYS void store(float* p, const Vec& v) { *reinterpret_cast<Unaligned*>(p) = v; }
PL_ALWAYS Vec all(float value) { return value - Vec{}; }
PL_ALWAYS Lanes first_lanes(int count) {
  Lanes index;
  for (int i = 0; i < kWidth; ++i) index[i] = i;
  return index < count;
}
// Only the first `count` lanes are read or written.
PL_ALWAYS Vec load_part(const float* p, int count) {
#if PL_CONV_MASKS == 512
  return Vec(_mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), p));
#elif PL_CONV_MASKS == 256
  return Vec(_mm256_maskload_ps(p, __m256i(first_lanes(count))));
#else
  Vec v{};
  for (int i = 0; i < kWidth; ++i)
    if (i < count) v[i] = p[i];
  return v;
#endif
}
PL_ALWAYS void store_part(float* p, const Vec& v, int count) {
#if PL_CONV_MASKS == 512
  _mm512_mask_storeu_ps(p, __mmask16((1u << count) - 1), __m512(v));
#elif PL_CONV_MASKS == 256
  _mm256_maskstore_ps(p, __m256i(first_lanes(count)), __m256(v));
#else
  for (int i = 0; i < kWidth; ++i)
    if (i < count) p[i] = v[i];
#endif
}

// NaN passes through both, as through the ops relu and clip: the instructions give their second argument then.  GCC does
// not find them everywhere by itself.
#if PL_CONV_MASKS == 256
PL_ALWAYS Vec at_least(const Vec& v, const Vec& low) { return Vec(_mm256_max_ps(__m256(low), __m256(v))); }
PL_ALWAYS Vec at_most(const Vec& v, const Vec& high) { return Vec(_mm256_min_ps(__m256(high), __m256(v))); }
#else
PL_ALWAYS Vec at_least(const Vec& v, const Vec& low) { return v < low ? low : v; }
PL_ALWAYS Vec at_most(const Vec& v, const Vec& high) { return v > high ? high : v; }
#endif

struct Hardswish {
  static PL_ALWAYS Vec of(const Vec& v) {
    return (v * kSixth) * (at_most(at_least(v + 3.0f, Vec{}), all(6.0f)) * kSixthRest);
  }
};
struct Silu {
  // v / (1 + 2^t) with t = -v log2(e) = n + f, |f| <= 1/2, and a polynomial for 2^f, fitted by weighted least squares
  // towards the minimax (7.5e-8). Relative error 4e-7 where |v| < 10; below -87, where silu is less than 1e-35, it
  // stays what it is there.
  static PL_ALWAYS Vec of(const Vec& v) {
    constexpr float kLog2 = -1.4426950408889634f, kRound = 12582912.0f;  // 1.5 * 2^23
    const Vec low = at_least(v, all(-87.0f)), x = at_most(low, all(87.0f));
    const Vec shifted = x * kLog2 + kRound, n = shifted - kRound, f = x * kLog2 - n;
    Vec p = f * 1.3276471990e-03f + 9.6755413344e-03f;
    p = p * f + 5.5507132735e-02f;
    p = p * f + 2.4022119724e-01f;
    p = p * f + 6.9314696706e-01f;
    p = p * f + 1.0000000717e+00f;
#if PL_CONV_MASKS == 512
    // A division takes as long as all the rest; one step of Newton's makes the reciprocal's 14 bits all but exact.
    const Vec sum = 1.0f + Vec(_mm512_maskz_scalef_ps(__mmask16(-1), __m512(p), __m512(n)));
    const Vec guess = Vec(_mm512_maskz_rcp14_ps(__mmask16(-1), __m512(sum)));
    return low * (guess * (2.0f - sum * guess));
#else
    // n, in the low bits of `shifted`, added to the exponent.
    return low / (1.0f + Vec(Lanes(p) + (Lanes(shifted) << 23)));
#endif
  }
};
template <class F>
PL_ALWAYS void each_stored(const Result& result, float* y, int64_t pixels, int vectors, int part) {
  for (int v = 0; v < vectors; ++v, y += result.vector)
    for (int64_t p = 0; p < pixels; ++p) {
      float* to = y + p * result.pixel;
      if (part && v == vectors - 1)
        store_part(to, F::of(load_part(to, part)), part);
      else
        store(to, F::of(load(to)));
    }
}
// Calls f(values, count) for what was stored, in runs as long as memory allows: channels of one pixel lie side by side
// in channels last (`vector` is the width there), pixels of one vector where it is the distance of pixels.
template <class F>
PL_ALWAYS void each_run(const Result& result, float* y, int64_t pixels, int vectors, int part, F&& f) {
  const bool side_by_side = result.vector == kWidth;
  const int runs = side_by_side ? 1 : vectors;
  for (int v = 0; v < runs; ++v, y += result.vector) {
    const bool last = side_by_side || v == vectors - 1;
    const int64_t count = int64_t(side_by_side ? vectors : 1) * kWidth - (part && last ? kWidth - part : 0);
    const bool together = count == result.pixel;
    for (int64_t p = 0; p < (together ? 1 : pixels); ++p) f(y + p * result.pixel, together ? pixels * count : count);
  }
}

// Functions that need more than a few instructions, on what was stored just now.
PL_ONE_COPY void activate(const Result& result, float* y, int64_t pixels, int vectors, int part) {
  const Finish& finish = result.ending.finish;
  if (finish.kind == Finish::Kind::hardswish) {
    each_stored<Hardswish>(result, y, pixels, vectors, part);
  } else if (finish.kind == Finish::Kind::silu) {
    each_stored<Silu>(result, y, pixels, vectors, part);
  } else {
    each_run(result, y, pixels, vectors, part,
             [&](float* to, int64_t n) { finish.other(to, to, n, finish.alpha, finish.beta); });
  }
}

// The post-ops behind that.
PL_ONE_COPY void go_on(const Result& result, float* y, int64_t pixels, int vectors, int part) {
  for (int i = 0; i < result.ending.further_count; ++i) {
    const Further& step = result.ending.further[i];
    each_run(result, y, pixels, vectors, part, [&](float* to, int64_t n) {
      const float* from = result.later ? result.later + (to - result.y) : nullptr;
      const float factor = float(step.alpha);
      switch (step.kind) {
        case Further::Kind::function: step.function(to, to, n, step.alpha, step.beta); break;
        case Further::Kind::scale:
          for (int64_t k = 0; k < n; ++k) to[k] *= factor;
          break;
        case Further::Kind::add:
          for (int64_t k = 0; k < n; ++k) to[k] += from[k];
          break;
        case Further::Kind::multiply:
          for (int64_t k = 0; k < n; ++k) to[k] *= from[k];
          break;
      }
    });
  }
}

// What a tile knows of its last vector of channels when it is compiled, which saves code for all else.
// cut: `part` channels are in memory.  filled: all are, where `part` is not 0 filled up with zeros.
enum class Last { any, cut, filled };

// Initial sums of P pixels and V vectors: bias and residual.
template <int P, int V, Last L = Last::any>
PL_ALWAYS void start(Vec (&sums)[P][V], const Result& result, int64_t offset, int64_t vector, int part) {
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const bool cut = (L == Last::cut || part) && v == V - 1;
    Vec bias{};
    if (result.bias) {
      const float* from = result.bias + (vector + v) * kWidth;
      bias = cut ? load_part(from, part) : load(from);
    }
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) sums[p][v] = bias;
    if (!result.residual) continue;
    const float* from = result.residual + offset + v * result.vector;
    if (cut && (L == Last::cut || (L == Last::any && !result.padded))) {
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) sums[p][v] += load_part(from + p * result.pixel, part);
    } else {
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) sums[p][v] += load(from + p * result.pixel);
    }
  }
}

// Activation, then the result.  `part`: the channels in the last vector; 0 if it is whole.
template <int P, int V, Last L = Last::any>
PL_ALWAYS void end(Vec (&sums)[P][V], const Result& result, int64_t offset, int part) {
  float* y = result.y + offset;
  const Finish& finish = result.ending.finish;
  if (finish.kind == Finish::Kind::clamp) {
    const Vec low = all(finish.low), high = all(finish.high);
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[p][v] = at_most(at_least(sums[p][v], low), high);
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    float* to = y + v * result.vector;
    if ((L == Last::cut || part) && v == V - 1) {
      if (L == Last::filled || (L == Last::any && result.padded)) {
        const Lanes keep = first_lanes(part);
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) store(to + p * result.pixel, keep ? sums[p][v] : Vec{});
      } else {
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) store_part(to + p * result.pixel, sums[p][v], part);
      }
    } else {
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) store(to + p * result.pixel, sums[p][v]);
    }
  }
  if (finish.kind > Finish::Kind::clamp) activate(result, y, P, V, part);
  if (result.ending.further_count) go_on(result, y, P, V, part);
}

// Sums of some of the input channels, into y; and added to what earlier channels gave. A sum begins at zero for each part
// of the channels: rounding errors grow with the length of what is added one after the other.
template <int P, int V>
PL_ALWAYS void add_kept(Vec (&sums)[P][V], const Result& result, int64_t offset, int part) {
  const float* y = result.y + offset;
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) {
      const float* from = y + v * result.vector + p * result.pixel;
      sums[p][v] += part && v == V - 1 && !result.padded ? load_part(from, part) : load(from);
    }
}
template <int P, int V>
PL_ALWAYS void keep(const Vec (&sums)[P][V], const Result& result, int64_t offset, int part) {
  float* y = result.y + offset;
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) {
      float* to = y + v * result.vector + p * result.pixel;
      if (part && v == V - 1 && !result.padded)
        store_part(to, sums[p][v], part);
      else
        store(to, sums[p][v]);
    }
}

// Fetches the memory of the next P pixels for writing: a store that misses the caches waits for the line to come.  Of
// 16 to 96 channels at 112x112, whose results are six times its inputs, that took a third of the time.
template <int P, int V>
PL_ALWAYS void fetch_following(const Result& result, int64_t offset) {
  const float* y = result.y + offset + P * result.pixel;
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) __builtin_prefetch(y + v * result.vector + p * result.pixel, 1, 3);
}

// ---- 1x1 ------------------------------------------------------------------------------------------

// Input channels [first, last).
struct Channels {
  int64_t first, last;
};

// P pixels by V vectors of output channels, some input channels.  Step > 0: x_pixel, known to the compiler.  `x`: at
// the first of the channels.  `ahead`: the filters of a vector whose turn comes soon, fetched into the second-level
// cache meanwhile.  Fresh: x is read for the first time, so what the next tile reads is fetched, a line for each input
// channel.  Without that a layer of 256 to 128 channels at 56x56 took 1.3 times as long where x comes from the
// third-level cache or memory: in nChw16c its lines lie in runs as short as the tile, which the hardware does not
// foresee.
template <int P, int V, int Step>
void pointwise_tile(const Pointwise& job, Channels channels, const float* x, int64_t offset, int64_t vector, int part,
                    const float* ahead, bool fresh) {
  Vec sums[P][V];
  if (channels.first == 0) {
    start<P, V>(sums, job.result, offset, vector, part);
    if (job.far_result) fetch_following<P, V>(job.result, offset);
  } else {
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[p][v] = Vec{};
  }
  const int64_t x_pixel = Step ? Step : job.x_pixel, w_vector = job.inputs * kWidth;
  const float* w = job.weights + vector * w_vector + channels.first * kWidth;
  for (int64_t left = channels.last - channels.first; left > 0; left -= job.chunk, x += job.x_chunk) {
    const int64_t chunk = left < job.chunk ? left : job.chunk;
    for (int64_t i = 0; i < chunk; ++i, w += kWidth, ahead += kWidth) {
      __builtin_prefetch(ahead, 0, 2);
      if (fresh && (Step || P >= kLine || i % kLine < P))
        __builtin_prefetch(Step ? x + P * Step + kLine * i : x + (P + i % kLine) * x_pixel + i / kLine * kLine, 0, 3);
      Vec filter[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) filter[v] = load(w + v * w_vector);
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) {
        const Vec value = all(x[p * x_pixel + i]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[p][v] += value * filter[v];
      }
    }
  }
  if (channels.first != 0) add_kept<P, V>(sums, job.result, offset, part);
  if (channels.last == job.inputs)
    end<P, V>(sums, job.result, offset, part);
  else
    keep<P, V>(sums, job.result, offset, part);
}

using PointwiseTile = void (*)(const Pointwise&, Channels, const float*, int64_t, int64_t, int, const float*, bool);

constexpr ConvKernels kTiles = {"", kWidth, PL_CONV_TILES, false, nullptr, nullptr, nullptr, nullptr};
constexpr int kMostPixels = 32;
constexpr int kMostChannels = 4;  // of a tile of columns

struct PointwiseTiles {
  PointwiseTile tile[5][kMostPixels + 1] = {};  // by vectors, then pixels
};
template <int Step, int V, int P>
constexpr void fill_pixels(PointwiseTiles& tiles) {
  tiles.tile[V][P] = pointwise_tile<P, V, Step>;
  if constexpr (P > 1) fill_pixels<Step, V, P - 1>(tiles);
}
template <int Step, int V>
constexpr PointwiseTiles fill_vectors(PointwiseTiles tiles) {
  fill_pixels<Step, V, kTiles.tile_pixels[V]>(tiles);
  if constexpr (V > 1)
    return fill_vectors<Step, V - 1>(tiles);
  else
    return tiles;
}
constexpr PointwiseTiles kNeighbours = fill_vectors<kWidth, kTiles.tile_vectors>({});
constexpr PointwiseTiles kApart = fill_vectors<0, kTiles.tile_vectors>({});

void pointwise(const Pointwise& job, int64_t first, int64_t last, int64_t first_vector, int64_t last_vector, int tile) {
  const PointwiseTiles& tiles = job.x_pixel == kWidth ? kNeighbours : kApart;
  const int64_t vectors = (job.result.channels + kWidth - 1) / kWidth;
  const int rest = int(job.result.channels % kWidth);
  const int64_t count = last_vector - first_vector, groups = (count + tile - 1) / tile;
  const int64_t depths = (job.inputs + job.depth - 1) / job.depth;
  const int64_t blocks = (last - first + job.block - 1) / job.block;
  struct Step {
    int64_t group, vector, v;
    Channels channels;
  };
  const auto step_at = [&](int64_t index) {
    Step step;
    step.group = job.channels_first ? index % groups : index / depths;
    step.vector = first_vector + count * step.group / groups;
    step.v = first_vector + count * (step.group + 1) / groups - step.vector;
    step.channels.first = (job.channels_first ? index / groups : index % depths) * job.depth;
    step.channels.last = step.channels.first + job.depth < job.inputs ? step.channels.first + job.depth : job.inputs;
    return step;
  };
  const int64_t steps = groups * depths;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = first + (last - first) * i / blocks, end = first + (last - first) * (i + 1) / blocks;
    for (int64_t index = 0; index < steps; ++index) {
      const auto [group, vector, v, channels] = step_at(index);
      const int part = vector + v == vectors ? rest : 0;
      // Each of the first tiles fetches the filters of one vector of the next step: behind the last one, of those that
      // follow here, which are most often the next that this thread is called for.
      Step next = step_at(index + 1 < steps ? index + 1 : 0);
      if (index + 1 == steps && i + 1 == blocks && last_vector + next.v <= vectors) next.vector = last_vector;
      const float* ahead = job.weights + (next.vector * job.inputs + next.channels.first) * kWidth;
      int64_t fetches = (i == 0 && index + 1 < steps) || job.far_weights ? next.v : 0;
      const int64_t x_channel = channels.first / job.chunk * job.x_chunk + channels.first % job.chunk;
      for (int64_t at = begin; at < end;) {
        const int64_t column = at % job.columns, line = at / job.columns;
        const int64_t image = line / job.rows, row = line % job.rows;
        const int64_t run = job.columns - column < end - at ? job.columns - column : end - at;
        const float* x = job.x + image * job.x_image + row * job.x_row + column * job.x_pixel + x_channel;
        const int64_t offset =
            image * job.result.image + row * job.result.row + column * job.result.pixel + vector * job.result.vector;
        const int64_t pieces = (run + kTiles.tile_pixels[v] - 1) / kTiles.tile_pixels[v];
        for (int64_t piece = 0; piece < pieces; ++piece) {
          const int64_t from = run * piece / pieces, pixels = run * (piece + 1) / pieces - from;
          tiles.tile[v][pixels](job, channels, x + from * job.x_pixel, offset + from * job.result.pixel, vector, part,
                                fetches > 0 ? ahead : job.weights, job.far_input && group == 0);
          ahead += job.inputs * kWidth;
          --fetches;
        }
        at += run;
      }
    }
  }
}

// ---- direct -----------------------------------------------------------------------------------------

// P neighbouring pixels of a row by V vectors of output channels, all taps.
template <int P, int V>
void direct_tile(const Direct& job, const float* x, int64_t offset, int64_t vector, int part) {
  Vec sums[P][V];
  start<P, V>(sums, job.result, offset, vector, part);
  if (job.far_result) fetch_following<P, V>(job.result, offset);
  const int64_t w_vector = job.inputs * kWidth;
  const float* w = job.weights + vector * w_vector;
  const int32_t* taps = job.taps;
  for (const int32_t* end = taps + job.inputs; taps != end; ++taps, w += kWidth) {
    const float* from = x + *taps;
    Vec filter[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) filter[v] = load(w + v * w_vector);
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) {
      const Vec value = all(from[p]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[p][v] += value * filter[v];
    }
  }
  end<P, V>(sums, job.result, offset, part);
}

using DirectTile = void (*)(const Direct&, const float*, int64_t, int64_t, int);
struct DirectTiles {
  DirectTile tile[5][kMostPixels + 1] = {};  // by vectors, then pixels
};
template <int V, int P>
constexpr void fill_direct_pixels(DirectTiles& tiles) {
  tiles.tile[V][P] = direct_tile<P, V>;
  if constexpr (P > 1) fill_direct_pixels<V, P - 1>(tiles);
}
template <int V>
constexpr DirectTiles fill_direct(DirectTiles tiles) {
  fill_direct_pixels<V, kTiles.tile_pixels[V]>(tiles);
  if constexpr (V > 1)
    return fill_direct<V - 1>(tiles);
  else
    return tiles;
}
constexpr DirectTiles kDirect = fill_direct<kTiles.tile_vectors>({});

void direct(const Direct& job, int64_t first_vector, int64_t last_vector, int tile) {
  const int64_t vectors = (job.result.channels + kWidth - 1) / kWidth;
  const int rest = int(job.result.channels % kWidth);
  const int64_t count = last_vector - first_vector, groups = (count + tile - 1) / tile;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t vector = first_vector + count * group / groups;
    const int v = int(first_vector + count * (group + 1) / groups - vector);
    const int part = vector + v == vectors ? rest : 0;
    const int64_t pieces = (job.columns + kTiles.tile_pixels[v] - 1) / kTiles.tile_pixels[v];
    for (int64_t row = 0; row < job.rows; ++row) {
      const float* x = job.x + row * job.x_row;
      const int64_t offset = row * job.result.row + vector * job.result.vector;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t from = job.columns * piece / pieces, pixels = job.columns * (piece + 1) / pieces - from;
        kDirect.tile[v][pixels](job, x + from, offset + from * job.result.pixel, vector, part);
      }
    }
  }
}

// P channels by V vectors of neighbouring columns, all taps.  `part`: the columns in the last vector; 0 if it is whole.
template <int P, int V>
void columns_tile(const Direct& job, const float* x, int64_t offset, int64_t channel, int part) {
  Vec sums[P][V];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    const Vec bias = all(job.result.bias ? job.result.bias[channel + p] : 0.0f);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[p][v] = bias;
    if (!job.result.residual) continue;
    const float* from = job.result.residual + offset + p * job.result.pixel;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      sums[p][v] += part && v == V - 1 ? load_part(from + v * kWidth, part) : load(from + v * kWidth);
  }
  const float* w = job.weights + channel * job.inputs;
  for (int64_t tap = 0; tap < job.inputs; ++tap, ++w) {
    const float* from = x + job.taps[tap];
    Vec columns[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) columns[v] = load(from + v * kWidth);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      const Vec filter = all(w[p * job.inputs]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[p][v] += columns[v] * filter;
    }
  }
  end<P, V>(sums, job.result, offset, part);
}

struct ColumnsTiles {
  DirectTile tile[5][9] = {};  // by channels, then vectors
};
template <int P, int V>
constexpr void fill_columns_vectors(ColumnsTiles& tiles) {
  tiles.tile[P][V] = columns_tile<P, V>;
  if constexpr (V > 1) fill_columns_vectors<P, V - 1>(tiles);
}
template <int P>
constexpr ColumnsTiles fill_columns(ColumnsTiles tiles) {
  fill_columns_vectors<P, kTiles.column_vectors[P]>(tiles);
  if constexpr (P > 1)
    return fill_columns<P - 1>(tiles);
  else
    return tiles;
}
constexpr ColumnsTiles kColumns = fill_columns<kMostChannels>({});

void direct_columns(const Direct& job, int64_t first, int64_t last) {
  const int64_t count = last - first, groups = (count + kMostChannels - 1) / kMostChannels;
  const int64_t vectors = (job.columns + kWidth - 1) / kWidth;
  const int rest = int(job.columns % kWidth);
  const auto group_from = [&](int64_t group) { return first + count * group / groups; };
  const int64_t most = kTiles.column_vectors[(count + groups - 1) / groups], pieces = (vectors + most - 1) / most;
  for (int64_t row = 0; row < job.rows; ++row)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t vector = vectors * piece / pieces, v = vectors * (piece + 1) / pieces - vector;
      const float* x = job.x + row * job.x_row + vector * kWidth;
      for (int64_t group = 0; group < groups; ++group) {
        const int64_t channel = group_from(group), p = group_from(group + 1) - channel;
        const int64_t offset = row * job.result.row + vector * kWidth + channel * job.result.pixel;
        kColumns.tile[p][v](job, x, offset, channel, vector + v == vectors ? rest : 0);
      }
    }
}

#include "providers/host/conv/conv_micro_depthwise.h"

constexpr ConvKernels kKernels = {PL_CONV_ISA, kWidth, PL_CONV_TILES,  PL_CONV_GROUPS != 0,
                                  pointwise,   direct, direct_columns, depthwise};

#undef PL_ALWAYS

}  // namespace
}  // namespace pl::host::PL_CONV_NAMESPACE
