// Images as pixels of a fixed number of channels side by side, for sums of pixels at places that lie anywhere.
#pragma once

#include <cstdint>

#include "providers/host/common/planes.h"

namespace pl::host {

// Of `step` neighbouring places: pixel k of place i at k * step + i.
struct PixelList {
  const int32_t* offsets;  // in elements of the packed image
  const float* weights;
  int count;
  int64_t step;
};

class PackedImages {
 public:
  // lanes: 2, 4, 8 or 16 channels of a pixel, those that channels lack are zero; 0: nothing is packed.
  PackedImages(const Planes& planes, int lanes);

  int lanes() const { return lanes_; }
  int64_t parts() const { return parts_; }                              // of the channels, so many lanes each
  int64_t elements() const { return parts_ * (pixels_ + 1) * lanes_; }  // of an image
  int32_t zeros() const { return int32_t(pixels_ * lanes_); }           // the offset of a pixel of zeros
  int64_t pieces() const { return parts_ * pieces_of_part(); }          // that an image is packed in

  // Pieces `begin` to `end` of an image.
  void pack(const float* source, float* packed, int64_t begin, int64_t end) const;
  // made[i * lanes + c] = the sum over the pixels of place i of weight * channel c, for n places.
  void sum(const float* packed, int64_t part, const PixelList& list, int64_t n, float* made) const;

 private:
  static constexpr int64_t kPiece = 1024;  // pixels
  int64_t pieces_of_part() const { return pixels_ / kPiece + 1; }

  Planes planes_;
  int lanes_;
  int64_t pixels_, parts_;
};

// What sum() made, n places of `lanes` each, as planes: those of the channels, `step` apart.
void split_lanes(const float* made, int lanes, int64_t n, int64_t channels, float* to, int64_t step);

}  // namespace pl::host
