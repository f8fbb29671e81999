// The samples of boxes, of roi_align and its gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "providers/host/common/planes.h"
#include "providers/host/movement/weighted_pixels.h"

namespace pl::host {

struct RoiSampling {
  int64_t ratio;  // samples of a bin along an axis; 0: as many as it has pixels
  float scale;
  bool aligned, largest;
  explicit RoiSampling(const Op& op);
};

struct RoiPart {
  int64_t pixel;
  float weight;
};

// A sample along one axis: the pixels on both sides, the same one twice at the border; weights 0 far outside.
struct RoiSample {
  RoiPart before, behind;
};

struct RoiAxis {
  int64_t bins = 0, each = 0;      // samples of a bin
  std::vector<RoiSample> samples;  // of all bins, in order

  void place(float first, float end, int64_t count, const RoiSampling& sampling, int64_t size);
  // The pixels of a bin, each once, with the sums of their weights.
  void merge(int64_t bin, std::vector<RoiPart>& parts) const;
};

// Where a box lies: the samples along both axes and, of a mean, the pixels of each bin.
struct RoiPlace {
  RoiAxis rows, columns;
  std::vector<WeightedPixel> pixels;  // of all bins
  std::vector<size_t> begin;          // of each bin, and the end of the last

  // `in`: the images, `out`: the bins.
  void find(const RoiSampling& sampling, const float* box, const Planes& in, const Planes& out);

  // The weighted pixels of a bin, each sample's by itself, where the largest is wanted: each(offset, weight).
  template <class Each>
  void for_each_pixel(const Planes& in, int64_t h, int64_t w, Each each) const {
    for (int64_t i = h * rows.each; i < (h + 1) * rows.each; ++i)
      for (int64_t j = w * columns.each; j < (w + 1) * columns.each; ++j) {
        const RoiSample &row = rows.samples[size_t(i)], &column = columns.samples[size_t(j)];
        for (const RoiPart& r : {row.before, row.behind})
          for (const RoiPart& c : {column.before, column.behind})
            each(r.pixel * in.step[1] + c.pixel * in.step[2], r.weight * c.weight);
      }
  }
};

// Fails where one is not an image's number.
void check_images(const char* op, const std::vector<int64_t>& images, int64_t count);

}  // namespace pl::host
