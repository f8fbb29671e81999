// Kind grid_sample: pixels and weights of a run of places, then weighted sums of the channels there.
#include <algorithm>
#include <limits>
#include <vector>

#include "providers/host/common/independent.h"
#include "providers/host/common/planes.h"
#include "providers/host/movement/grid_axis.h"
#include "providers/host/movement/weighted_pixels.h"

namespace pl::host {
namespace {

constexpr int64_t kPlaces = 256;  // at a time
constexpr int kMostPixels = 64;   // of a place: four along each of three axes

// The pixels of a run of places and their weights: pixel k of place i at k * kPlaces + i, offset -1 where there is none.
struct PixelsOfPlaces {
  int count = 0;
  std::vector<int32_t> offsets = std::vector<int32_t>(size_t(kMostPixels * kPlaces));
  std::vector<float> weights = std::vector<float>(size_t(kMostPixels * kPlaces));

  // `places`: `spatial` numbers of the grid for each.
  void find(const GridAxis& axis, const Planes& in, const float* places, int spatial, int64_t n) {
    const int most = axis.most_parts();
    count = 0;
    for (int d = 3 - spatial; d < 3; ++d) {
      int32_t pixels[4 * kPlaces];
      float shares[4 * kPlaces];
      axis.parts_of_places(places + (2 - d), spatial, n, in.size[d], kPlaces, pixels, shares);
      // Each pixel so far with each of this axis, the last ones first, as they are written over the former.
      const int before = count;
      count = std::max(1, before) * most;
      for (int at = count - 1; at >= 0; --at) {
        const int32_t step = int32_t(in.step[d]), *const own = pixels + at % most * kPlaces;
        const float* const share = shares + at % most * kPlaces;
        const int64_t from = at / most * kPlaces;
        combine(before ? offsets.data() + from : nullptr, weights.data() + from, own, share, step, n,
                offsets.data() + at * kPlaces, weights.data() + at * kPlaces);
      }
    }
  }

 private:
  // The first may be null: own pixels alone.
  PL_VECTORISED static void combine(const int32_t* before, const float* weights, const int32_t* own,
                                    const float* shares, int32_t step, int64_t n, int32_t* offsets, float* products) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const int32_t rest = before ? before[i] : 0;
      const float weight = before ? weights[i] : 1.0f;
      offsets[i] = rest < 0 || own[i] < 0 ? -1 : rest + own[i] * step;
      products[i] = weight * shares[i];
    }
  }
};

struct GridSampleBody {
  TensorDesc x_desc, y_desc;
  Planes in, out;
  int spatial;
  GridAxis axis;
  LoadRun<float> load;
  StoreRun<float> store;

  // A run of places; `source` and `target`: its image, and the first place of its result.
  void sample(const PixelsOfPlaces& pixels, int64_t n, const float* source, float* target) const {
    if (in.width == 1) {
      for (int64_t channel = 0; channel < in.groups; ++channel) {
        float* to = target + channel * out.group_step;
        std::fill(to, to + n, 0.0f);
        for (int k = 0; k < pixels.count; ++k)
          add_pixels(source + channel * in.group_step, pixels.offsets.data() + k * kPlaces,
                     pixels.weights.data() + k * kPlaces, n, to);
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      WeightedPixel list[kMostPixels];
      int64_t count = 0;
      for (int k = 0; k < pixels.count; ++k)
        if (const int32_t offset = pixels.offsets[size_t(k * kPlaces + i)]; offset >= 0)
          list[count++] = {offset, pixels.weights[size_t(k * kPlaces + i)]};
      for (int64_t group = 0; group < in.groups; ++group)
        sum_pixels(source + group * in.group_step, list, count, target + group * out.group_step + i * in.width,
                   in.width);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const int64_t rows = out.images * out.size[0] * out.size[1], length = out.size[2];
    if (rows * length == 0) return;
    Staged<float> x(x_desc, input(arguments, 0), load), y(y_desc, output(arguments));
    const float* source = x.get();
    const float* grid = static_cast<const float*>(input(arguments, 1));
    float* target = y.get();
    const double work = double(length) * (double(in.groups * in.width) * (in.width == 1 ? 1.0 : 0.5) + 3);
    parallel_for(rows, work, [&](int64_t begin, int64_t end) {
      PixelsOfPlaces pixels;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t h = row % out.size[1], d = row / out.size[1] % out.size[0],
                      image = row / out.size[1] / out.size[0];
        const float* from = source + image * in.image_step;
        float* to = target + image * out.image_step + d * out.step[0] + h * out.step[1];
        for (int64_t w = 0; w < length; w += kPlaces) {
          const int64_t n = std::min(kPlaces, length - w);
          pixels.find(axis, in, grid + (row * length + w) * spatial, spatial, n);
          sample(pixels, n, from, to + w * out.step[2]);
        }
      }
    });
    y.commit(store);
  }
};

void list_grid_sample(const Op& op, CandidateList& out) {
  const TensorDesc grid = dense_plain(op.in(1));
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    const auto in = Planes::of(x), result = Planes::of(y);
    if (!in || !result) continue;
    const int64_t pixels = in->size[0] * in->size[1] * in->size[2];
    if (pixels * in->width > std::numeric_limits<int32_t>::max()) {
      out.refuse("host", concat("grid_sample: an image of ", pixels, " pixels, whose places do not fit 32 bits"));
      continue;
    }
    const GridSampleBody body{
        x, y, *in, *result, x.rank() - 2, GridAxis(op), float_loader(x.dtype), float_storer(y.dtype)};
    add_candidate(out, "grid_sample", in->width > 1 ? Quality::fast : Quality::fair, {x, grid}, {y},
                  [body] { return body; });
    // Of pixels with few channels most of the time goes into lists of pixels, in nanoseconds of two threads.
    const double memory = 0.4 * double(in->width) + 0.4, lists = 6 + 0.08 * double(in->width);
    if (in->width > 1) out.candidates.back().efficiency = std::min(0.7, memory / lists);
  }
}
PL_HOST_KIND("grid_sample", list_grid_sample);

}  // namespace
}  // namespace pl::host
