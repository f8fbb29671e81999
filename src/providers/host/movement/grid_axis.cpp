#include "providers/host/movement/grid_axis.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

float mirrored(float at, int64_t size, bool corners, float& turn) {
  const float low = corners ? 0.0f : -0.5f, span = corners ? float(size - 1) : float(size);
  if (span <= 0) {
    turn = 0;
    return 0;
  }
  const float away = std::fmod(std::fabs(at - low), 2 * span);
  turn = (at < low) != (away > span) ? -1.0f : 1.0f;
  return low + (away > span ? 2 * span - away : away);
}

constexpr float kCubic = -0.75f;
float inner(float d) { return ((kCubic + 2) * d - (kCubic + 3)) * d * d + 1; }
float outer(float d) { return ((kCubic * d - 5 * kCubic) * d + 8 * kCubic) * d - 4 * kCubic; }
float inner_slope(float d) { return (3 * (kCubic + 2) * d - 2 * (kCubic + 3)) * d; }
float outer_slope(float d) { return (3 * kCubic * d - 10 * kCubic) * d + 8 * kCubic; }

// What parts() does, of many places at a time.
struct Places {
  const float* at;
  int64_t step, n;
  float size;
  bool corners, held;  // held: at the border

  PL_INLINE float operator()(int64_t i) const {
    const float given = at[i * step] + 1;
    const float place = corners ? given * 0.5f * (size - 1) : (given * size - 1) * 0.5f;
    if (!held) return place;
    const float low = place < 0 ? 0.0f : place;
    return size - 1 < low ? size - 1 : low;
  }
  PL_INLINE int32_t pixel(float place) const { return int32_t(place >= 0 && place <= size - 1 ? place : -1.0f); }
};

PL_VECTORISED void nearest_pixels(Places places, int32_t* __restrict pixels, float* __restrict weights) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < places.n; ++i) {
    pixels[i] = places.pixel(std::nearbyint(places(i)));
    weights[i] = 1;
  }
}

PL_VECTORISED void linear_pixels(Places places, int64_t room, int32_t* __restrict pixels, float* __restrict weights) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < places.n; ++i) {
    const float place = places(i), before = std::floor(place);
    pixels[i] = places.pixel(before);
    weights[i] = before + 1 - place;
    pixels[room + i] = places.pixel(before + 1);
    weights[room + i] = place - before;
  }
}

}  // namespace

GridAxis::GridAxis(const Op& op) : corners(op.attributes[attr::align_corners]) {
  const std::string &mode = op.attributes[attr::mode], &padding = op.attributes[attr::padding_mode];
  between = mode == "nearest" ? Between::nearest : mode.find("cubic") != mode.npos ? Between::cubic : Between::linear;
  outside = padding == "zeros" ? Outside::zeros : padding == "border" ? Outside::border : Outside::reflection;
}

float GridAxis::brought_inside(float at, int64_t size, float& turn) const {
  turn = 1;
  if (outside == Outside::reflection) at = mirrored(at, size, corners, turn);
  if (outside == Outside::zeros) return at;
  if (at <= 0 || at >= float(size - 1)) turn = 0;
  return std::min(std::max(at, 0.0f), float(size - 1));
}

void GridAxis::parts_of_places(const float* at, int64_t step, int64_t n, int64_t size, int64_t room, int32_t* pixels,
                               float* weights) const {
  if (outside != Outside::reflection && between != Between::cubic) {
    const Places places{at, step, n, float(size), corners, outside == Outside::border};
    if (between == Between::nearest) return nearest_pixels(places, pixels, weights);
    return linear_pixels(places, room, pixels, weights);
  }
  for (int64_t i = 0; i < n; ++i) {
    GridPart found[4];
    const int count = parts(at[i * step], size, found);
    for (int k = 0; k < most_parts(); ++k) {
      pixels[k * room + i] = k < count ? int32_t(found[k].pixel) : -1;
      weights[k * room + i] = k < count ? found[k].weight : 0.0f;
    }
  }
}

int GridAxis::parts(float at, int64_t size, GridPart* found) const {
  at = corners ? (at + 1) / 2 * float(size - 1) : ((at + 1) * float(size) - 1) / 2;
  const float scale = 0.5f * float(corners ? size - 1 : size);
  int count = 0;
  float turn;
  // A pixel at a whole number; none where it is outside of the image.
  const auto put = [&](float place, float weight, float slope) {
    if (place >= 0 && place <= float(size - 1)) found[count++] = {int64_t(place), weight, slope};
  };
  if (between == Between::nearest) {
    put(std::nearbyint(brought_inside(at, size, turn)), 1, 0);
  } else if (between == Between::linear) {
    at = brought_inside(at, size, turn);
    const float before = std::floor(at);
    put(before, before + 1 - at, -turn * scale);
    put(before + 1, at - before, turn * scale);
  } else {
    const float before = std::floor(at), share = at - before;
    const float weights[4] = {outer(1 + share), inner(share), inner(1 - share), outer(2 - share)};
    const float slopes[4] = {outer_slope(1 + share), inner_slope(share), -inner_slope(1 - share),
                             -outer_slope(2 - share)};
    // At a border two pixels may be the same one.
    for (int k = 0; k < 4; ++k) put(brought_inside(before + float(k - 1), size, turn), weights[k], slopes[k] * scale);
  }
  return count;
}

}  // namespace pl::host
