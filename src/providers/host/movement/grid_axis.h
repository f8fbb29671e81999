// How grid_sample reads images along one axis.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace pl::host {

// A pixel, its weight, and how fast that changes with the number that the grid holds.
struct GridPart {
  int64_t pixel;
  float weight, slope;
};

struct GridAxis {
  enum class Between { nearest, linear, cubic };
  enum class Outside { zeros, border, reflection };
  Between between;
  Outside outside;
  bool corners;

  explicit GridAxis(const Op& op);
  int most_parts() const { return between == Between::nearest ? 1 : between == Between::linear ? 2 : 4; }
  // The pixels along an axis of `size`, at most four; `at` is from -1 to 1 across the image.
  int parts(float at, int64_t size, GridPart* found) const;
  // Those of n places, at most kMostPlaces, at at[0], at[step]...: part k of place i at k * room + i, pixel -1 where
  // there is none.
  static constexpr int64_t kMostPlaces = 256;
  void parts_of_places(const float* at, int64_t step, int64_t n, int64_t size, int64_t room, int32_t* pixels,
                       float* weights) const;

 private:
  void bring_inside(float* places, int64_t n, int64_t size) const;
  // `turn`: what it does to a small step of `at`: 1, -1 (mirrored), or 0 (held at a border).
  float brought_inside(float at, int64_t size, float& turn) const;
};

// The pixels and weights of a place, of up to three axes, by their parts: calls each(pixel's offset, i, j, k).
template <class Each>
void for_each_pixel(const int64_t* step, const GridPart (*parts)[4], const int* count, Each each) {
  for (int i = 0; i < count[0]; ++i)
    for (int j = 0; j < count[1]; ++j)
      for (int k = 0; k < count[2]; ++k)
        each(parts[0][i].pixel * step[0] + parts[1][j].pixel * step[1] + parts[2][k].pixel * step[2], i, j, k);
}

// The parts of a place along d, h and w; what a grid of fewer numbers does not name is one pixel.
inline void parts_of_place(const GridAxis& axis, const float* place, int spatial, const int64_t* size,
                           GridPart (*parts)[4], int* count) {
  for (int d = 0; d < 3; ++d) {
    const int at = d - (3 - spatial);
    parts[d][0] = {0, 1, 0};
    count[d] = at < 0 ? 1 : axis.parts(place[spatial - 1 - at], size[d], parts[d]);
  }
}

}  // namespace pl::host
