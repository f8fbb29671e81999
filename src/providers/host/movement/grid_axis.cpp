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
PL_INLINE float inner(float d) { return ((kCubic + 2) * d - (kCubic + 3)) * d * d + 1; }
PL_INLINE float outer(float d) { return ((kCubic * d - 5 * kCubic) * d + 8 * kCubic) * d - 4 * kCubic; }
float inner_slope(float d) { return (3 * (kCubic + 2) * d - 2 * (kCubic + 3)) * d; }
float outer_slope(float d) { return (3 * kCubic * d - 10 * kCubic) * d + 8 * kCubic; }

// What parts() does, of many places at a time, in loops so short that each becomes vector code.

PL_VECTORISED void places_of(const float* at, int64_t step, int64_t n, float size, bool corners,
                             float* __restrict places) {
  const float scale = corners ? 0.5f * (size - 1) : 0.5f * size, shift = corners ? 0.0f : -0.5f;
  for (int64_t i = 0; i < n; ++i) places[i] = (at[i * step] + 1) * scale + shift;
}

PL_VECTORISED void hold(float* places, int64_t n, float last) {
  for (int64_t i = 0; i < n; ++i) places[i] = places[i] < 0 ? 0.0f : places[i];
  for (int64_t i = 0; i < n; ++i) places[i] = last < places[i] ? last : places[i];
}
// As at a mirror at `low` and another one, `span` further.
PL_VECTORISED void mirror(float* places, int64_t n, float low, float span) {
  const float periods = 0.5f / span;
  for (int64_t i = 0; i < n; ++i) {
    const float away = __builtin_fabsf(places[i] - low);
    places[i] = away - __builtin_floorf(away * periods) * (2 * span);
  }
  for (int64_t i = 0; i < n; ++i) places[i] = low + (places[i] > span ? 2 * span - places[i] : places[i]);
}

// Those of whole numbers; -1 outside of the image.
PL_VECTORISED void pixels_at(const float* places, int64_t n, float last, float shift, int32_t* __restrict pixels) {
  for (int64_t i = 0; i < n; ++i) {
    const float place = places[i] + shift;
    pixels[i] = int32_t(place >= 0 && place <= last ? place : -1.0f);
  }
}
PL_VECTORISED void nearest_of(float* places, int64_t n) {
  for (int64_t i = 0; i < n; ++i) places[i] = __builtin_rintf(places[i]);
}
// The whole numbers below, and what is left.
PL_VECTORISED void split_places(float* __restrict places, int64_t n, float* __restrict shares) {
  for (int64_t i = 0; i < n; ++i) {
    const float before = __builtin_floorf(places[i]);
    shares[i] = places[i] - before;
    places[i] = before;
  }
}
PL_VECTORISED void linear_weights(const float* shares, int64_t n, float* __restrict first, float* __restrict second) {
  for (int64_t i = 0; i < n; ++i) {
    first[i] = 1 - shares[i];
    second[i] = shares[i];
  }
}
PL_VECTORISED void cubic_weights(const float* shares, int64_t n, int64_t room, float* __restrict weights) {
  for (int64_t i = 0; i < n; ++i) {
    weights[i] = outer(1 + shares[i]);
    weights[room + i] = inner(shares[i]);
    weights[2 * room + i] = inner(1 - shares[i]);
    weights[3 * room + i] = outer(2 - shares[i]);
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

void GridAxis::bring_inside(float* places, int64_t n, int64_t size) const {
  if (outside == Outside::zeros) return;
  const float span = corners ? float(size - 1) : float(size);
  if (outside == Outside::reflection && span > 0) mirror(places, n, corners ? 0.0f : -0.5f, span);
  hold(places, n, float(size - 1));  // one pixel has no span: all is held
}

void GridAxis::parts_of_places(const float* at, int64_t step, int64_t n, int64_t size, int64_t room, int32_t* pixels,
                               float* weights) const {
  float places[kMostPlaces], shares[kMostPlaces];
  const float last = float(size - 1);
  places_of(at, step, n, float(size), corners, places);
  if (between == Between::cubic) {
    split_places(places, n, shares);
    cubic_weights(shares, n, room, weights);
    for (int k = 0; k < 4; ++k) {
      std::transform(places, places + n, shares, [k](float place) { return place + float(k - 1); });
      bring_inside(shares, n, size);
      pixels_at(shares, n, last, 0, pixels + k * room);
    }
    return;
  }
  bring_inside(places, n, size);
  if (between == Between::nearest) {
    nearest_of(places, n);
    std::fill_n(weights, n, 1.0f);
    return pixels_at(places, n, last, 0, pixels);
  }
  split_places(places, n, shares);
  linear_weights(shares, n, weights, weights + room);
  for (int k = 0; k < 2; ++k) pixels_at(places, n, last, float(k), pixels + k * room);
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
