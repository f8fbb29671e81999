#include "providers/host/movement/packed_pixels.h"

#include <algorithm>
#include <cstring>

#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

template <int kLanes>
struct Vector {
  typedef float Type __attribute__((vector_size(4 * kLanes)));
};
typedef Vector<4>::Type Four;

// By reference, as how vectors are passed depends on the instruction set.
template <class V>
PL_INLINE void load(const float* from, V& to) {
  std::memcpy(&to, from, sizeof(to));
}
template <class V>
PL_INLINE void store(const V& from, float* to) {
  std::memcpy(to, &from, sizeof(from));
}

// Rows become columns.
PL_INLINE void transpose_four(Four* r) {
  const Four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const Four c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7), d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
  r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

// One channel of n pixels.
void put_channel(const float* from, int64_t from_step, int64_t n, float* to, int64_t to_step) {
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}
// Four channels, each with its own step: 0 of one that is not there.
struct Channels {
  const float* from[4];
  int64_t step[4];
};
void put_four(const Channels& channels, int64_t n, float* to, int64_t to_step) {
  bool side_by_side = true;
  for (int64_t step : channels.step) side_by_side = side_by_side && step <= 1;
  int64_t i = 0;
  for (; side_by_side && i + 4 <= n; i += 4) {
    Four rows[4];
    for (int c = 0; c < 4; ++c)
      if (channels.step[c])
        load(channels.from[c] + i, rows[c]);
      else
        rows[c] = Four{};
    transpose_four(rows);
    for (int k = 0; k < 4; ++k) store(rows[k], to + (i + k) * to_step);
  }
  for (; i < n; ++i)
    for (int c = 0; c < 4; ++c) to[i * to_step + c] = channels.from[c][i * channels.step[c]];
}

// kCount: pixels of a place; 0: as many as the list has.
template <int kLanes, int kCount>
PL_INLINE void sum_places(const float* image, const PixelList& list, int64_t n, float* made) {
  const int count = kCount ? kCount : list.count;
  if constexpr (kLanes < 4) {
    for (int64_t i = 0; i < n; ++i) {
      float sums[kLanes] = {};
      for (int k = 0; k < count; ++k)
        for (int c = 0; c < kLanes; ++c)
          sums[c] += list.weights[k * list.step + i] * image[list.offsets[k * list.step + i] + c];
      for (int c = 0; c < kLanes; ++c) made[i * kLanes + c] = sums[c];
    }
    return;
  }
  using V = typename Vector<kLanes>::Type;
  for (int64_t i = 0; i < n; ++i) {
    V sum = {};
    for (int k = 0; k < count; ++k) {
      V pixel;
      load(image + list.offsets[k * list.step + i], pixel);
      sum += list.weights[k * list.step + i] * pixel;
    }
    store(sum, made + i * kLanes);
  }
}
template <int kLanes>
PL_INLINE void sum_of(const float* image, const PixelList& list, int64_t n, float* made) {
  if (list.count == 4) return sum_places<kLanes, 4>(image, list, n, made);
  sum_places<kLanes, 0>(image, list, n, made);
}
PL_VECTORISED void sum_lanes(int lanes, const float* image, const PixelList& list, int64_t n, float* made) {
  switch (lanes) {
    case 2: return sum_of<2>(image, list, n, made);
    case 4: return sum_of<4>(image, list, n, made);
    case 8: return sum_of<8>(image, list, n, made);
    default: return sum_of<16>(image, list, n, made);
  }
}

}  // namespace

void split_lanes(const float* made, int lanes, int64_t n, int64_t channels, float* to, int64_t step) {
  int64_t c = 0;
  for (; lanes >= 4 && c < channels; c += 4) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      Four rows[4];
      for (int k = 0; k < 4; ++k) load(made + (i + k) * lanes + c, rows[k]);
      transpose_four(rows);
      for (int64_t k = 0; k < std::min<int64_t>(4, channels - c); ++k) store(rows[k], to + (c + k) * step + i);
    }
    for (; i < n; ++i)
      for (int64_t k = c; k < std::min(c + 4, channels); ++k) to[k * step + i] = made[i * lanes + k];
  }
  for (; c < channels; ++c) put_channel(made + c, lanes, n, to + c * step, 1);
}

PackedImages::PackedImages(const Planes& planes, int lanes)
    : planes_(planes),
      lanes_(lanes),
      pixels_(planes.size[0] * planes.size[1] * planes.size[2]),
      parts_(lanes ? (planes.groups * planes.width + lanes - 1) / lanes : 0) {}

void PackedImages::pack(const float* source, float* packed, int64_t begin, int64_t end) const {
  static const float kNone = 0;
  const int64_t channels = planes_.groups * planes_.width, pieces = pieces_of_part();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t piece = i % pieces, part = i / pieces;
    const int64_t first = piece * kPiece, n = std::min(kPiece, pixels_ - first);
    float* to = packed + (part * (pixels_ + 1) + first) * lanes_;
    const float* own = source + first * planes_.width;
    const auto at = [&](int64_t c) {
      return c < channels ? own + c / planes_.width * planes_.group_step + c % planes_.width : &kNone;
    };
    const auto step = [&](int64_t c) { return c < channels ? planes_.width : 0; };
    for (int c = 0; c < lanes_;) {
      const int64_t from = part * lanes_ + c;
      if (lanes_ < 4) {
        put_channel(at(from), step(from), n, to + c++, lanes_);
        continue;
      }
      put_four({{at(from), at(from + 1), at(from + 2), at(from + 3)},
                {step(from), step(from + 1), step(from + 2), step(from + 3)}},
               n, to + c, lanes_);
      c += 4;
    }
    if (piece == pieces - 1) std::fill_n(to + n * lanes_, lanes_, 0.0f);
  }
}

void PackedImages::sum(const float* packed, int64_t part, const PixelList& list, int64_t n, float* made) const {
  sum_lanes(lanes_, packed + part * (pixels_ + 1) * lanes_, list, n, made);
}

}  // namespace pl::host
