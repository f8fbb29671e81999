#include "providers/host/movement/grid_axis.h"

#include <algorithm>
#include <cmath>
#include <string>

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
