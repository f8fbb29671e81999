// Kind grid_sample: pixels and weights of a run of places, then weighted sums of the channels there.
//
// Where pixels hold few channels, or one, images are packed first: pixels of a fixed number of channels, and behind them
// one of zeros, which places outside of the image read.  So the sums of a place are as many loads as it has pixels.
#include <algorithm>
#include <limits>
#include <vector>

#include "providers/host/common/independent.h"
#include "providers/host/common/planes.h"
#include "providers/host/movement/grid_axis.h"
#include "providers/host/movement/packed_pixels.h"
#include "providers/host/movement/weighted_pixels.h"

namespace pl::host {
namespace {

constexpr int64_t kPlaces = GridAxis::kMostPlaces;  // at a time
constexpr int kPixelsOfPlace = 64;                  // of a place: four along each of three axes
constexpr int kPackedLanes = 16;

// The pixels of a run of places and their weights: pixel k of place i at k * kPlaces + i; weight 0 and the offset `none`
// where there is no such pixel.
struct PixelsOfPlaces {
  int32_t none;
  int count = 0;
  std::vector<int32_t> offsets = std::vector<int32_t>(size_t(kPixelsOfPlace * kPlaces));
  std::vector<float> weights = std::vector<float>(size_t(kPixelsOfPlace * kPlaces));

  explicit PixelsOfPlaces(int32_t none_at) : none(none_at) {}

  // `places`: `spatial` numbers of the grid for each; `step`: between pixels along d, h and w.
  void find(const GridAxis& axis, const int64_t* size, const int64_t* step, const float* places, int spatial,
            int64_t n) {
    const int most = axis.most_parts();
    count = 0;
    for (int d = 3 - spatial; d < 3; ++d) {
      int32_t pixels[4 * kPlaces];
      float shares[4 * kPlaces];
      axis.parts_of_places(places + (2 - d), spatial, n, size[d], kPlaces, pixels, shares);
      // Each pixel so far with each of this axis, the last ones first, as they are written over the former.
      const int before = count;
      count = std::max(1, before) * most;
      for (int at = count - 1; at >= 0; --at) {
        const int32_t* const own = pixels + at % most * kPlaces;
        const float* const share = shares + at % most * kPlaces;
        const int64_t from = at / most * kPlaces;
        combine(before ? offsets.data() + from : nullptr, weights.data() + from, own, share, int32_t(step[d]), none, n,
                offsets.data() + at * kPlaces, weights.data() + at * kPlaces);
      }
    }
  }

 private:
  // The first may be null: own pixels alone.
  PL_VECTORISED static void combine(const int32_t* before, const float* weights, const int32_t* own,
                                    const float* shares, int32_t step, int32_t none, int64_t n, int32_t* offsets,
                                    float* products) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const int32_t rest = before ? before[i] : 0;
      const float weight = before ? weights[i] : 1.0f;
      const bool there = (rest != none) & (own[i] >= 0);
      offsets[i] = there ? rest + own[i] * step : none;
      products[i] = there ? weight * shares[i] : 0.0f;
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
  PackedImages packed;  // without lanes: images are read as they are
  int64_t slots;        // packed images at a time

  int64_t channels() const { return in.groups * in.width; }

  // A run of places of one channel.  One by one: processors that gather floats take no less time for it.
  template <int kCount>
  static void sum_plane(const PixelsOfPlaces& pixels, int64_t n, const float* from, float* to) {
    const int count = kCount ? kCount : pixels.count;
    const int32_t* offsets = pixels.offsets.data();
    const float* weights = pixels.weights.data();
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int k = 0; k < count; ++k)
        if (const int32_t at = offsets[k * kPlaces + i]; at >= 0) sum += weights[k * kPlaces + i] * from[at];
      to[i] = sum;
    }
  }
  // One pixel a place, of weight 1.  Those within the image are found once for all channels: the processor cannot
  // foretell which they are.
  void take_planes(const PixelsOfPlaces& pixels, int64_t n, const float* source, float* target) const {
    int32_t inside[kPlaces], offsets[kPlaces];
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
      inside[count] = int32_t(i);
      offsets[count] = pixels.offsets[size_t(i)];
      count += offsets[count] >= 0;
    }
    for (int64_t channel = 0; channel < in.groups; ++channel) {
      const float* from = source + channel * in.group_step;
      float* to = target + channel * out.group_step;
      if (count < n) std::fill_n(to, n, 0.0f);
      for (int64_t i = 0; i < count; ++i) to[inside[i]] = from[offsets[i]];
    }
  }
  void sum_planes(const PixelsOfPlaces& pixels, int64_t n, const float* source, float* target) const {
    if (pixels.count == 1) return take_planes(pixels, n, source, target);
    for (int64_t channel = 0; channel < in.groups; ++channel) {
      const float* from = source + channel * in.group_step;
      float* to = target + channel * out.group_step;
      if (pixels.count == 4)
        sum_plane<4>(pixels, n, from, to);
      else
        sum_plane<0>(pixels, n, from, to);
    }
  }
  // Of pixels of several.
  void sum_lists(const PixelsOfPlaces& pixels, int64_t n, const float* source, float* target) const {
    for (int64_t i = 0; i < n; ++i) {
      WeightedPixel list[kPixelsOfPlace];
      int64_t count = 0;
      for (int k = 0; k < pixels.count; ++k)
        if (const int32_t offset = pixels.offsets[size_t(k * kPlaces + i)]; offset >= 0)
          list[count++] = {offset, pixels.weights[size_t(k * kPlaces + i)]};
      for (int64_t group = 0; group < in.groups; ++group)
        sum_pixels(source + group * in.group_step, list, count, target + group * out.group_step + i * in.width,
                   in.width);
    }
  }
  // Of packed ones.
  void sum_packed(const PixelsOfPlaces& pixels, int64_t n, const float* image, float* target) const {
    const int lanes = packed.lanes();
    const PixelList list{pixels.offsets.data(), pixels.weights.data(), pixels.count, kPlaces};
    float made[kPlaces * kPackedLanes];
    for (int64_t part = 0; part < packed.parts(); ++part) {
      const int64_t first = part * lanes, own = std::min<int64_t>(lanes, channels() - first);
      packed.sum(image, part, list, n, made);
      if (in.width == 1) {
        split_lanes(made, lanes, n, own, target + first * out.group_step, out.group_step);
        continue;
      }
      for (int64_t c = 0; c < own; ++c) {
        float* to = target + (first + c) / in.width * out.group_step + (first + c) % in.width;
        for (int64_t i = 0; i < n; ++i) to[i * in.width] = made[i * lanes + c];
      }
    }
  }

  int64_t chunks() const { return (out.size[0] * out.size[1] * out.size[2] + kPlaces - 1) / kPlaces; }

  // Chunks of places of an image; `pixels`: of it as it is, or of the packed one.
  void sample(const float* grid, int64_t image, int64_t begin, int64_t end, const float* pixels, float* target) const {
    const int64_t length = out.size[0] * out.size[1] * out.size[2], lanes = packed.lanes();
    const int64_t packed_step[3] = {in.size[1] * in.size[2] * lanes, in.size[2] * lanes, lanes};
    PixelsOfPlaces found(lanes ? packed.zeros() : -1);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kPlaces, n = std::min(kPlaces, length - first);
      float* to = target + image * out.image_step + first * in.width;
      found.find(axis, in.size, lanes ? packed_step : in.step, grid + (image * length + first) * spatial, spatial, n);
      if (lanes)
        sum_packed(found, n, pixels, to);
      else if (in.width == 1)
        sum_planes(found, n, pixels, to);
      else
        sum_lists(found, n, pixels, to);
    }
  }

  double work_of_chunk() const {
    return double(kPlaces) * (double(channels()) * (in.width == 1 && !packed.lanes() ? 1.0 : 0.5) + 3);
  }
  double work_of_piece() const { return 300.0 * packed.lanes(); }

  // An image is packed right before its places are found: by one thread where there are images for all.
  void sample_packed(const float* source, const float* grid, float* room, float* target) const {
    const auto image = [&](int64_t i) { return source + i * in.image_step; };
    const double work = double(chunks()) * work_of_chunk() + double(packed.pieces()) * work_of_piece();
    if (slots > 1 && out.images >= 2 * slots) {
      in_shares(int(slots), out.images, [&](int64_t rank, Shares::Taker take) {
        float* own = room + rank * packed.elements();
        for (int64_t i; (i = take()) >= 0;) {
          packed.pack(image(i), own, 0, packed.pieces());
          sample(grid, i, 0, chunks(), own, target);
        }
      });
      return;
    }
    for (int64_t i = 0; i < out.images; ++i) {
      parallel_for(packed.pieces(), work_of_piece(),
                   [&](int64_t begin, int64_t end) { packed.pack(image(i), room, begin, end); });
      parallel_for(chunks(), work / double(chunks()),
                   [&](int64_t begin, int64_t end) { sample(grid, i, begin, end, room, target); });
    }
  }

  void operator()(const KernelArguments& arguments) const {
    if (out.images * chunks() == 0) return;
    Staged<float> x(x_desc, input(arguments, 0), load), y(y_desc, output(arguments));
    const float *source = x.get(), *grid = static_cast<const float*>(input(arguments, 1));
    float* target = y.get();
    if (packed.lanes()) {
      sample_packed(source, grid, static_cast<float*>(arguments.workspace->host()), target);
    } else {
      parallel_for(out.images * chunks(), work_of_chunk(), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end;) {
          const int64_t image = at / chunks(), first = at % chunks(), n = std::min(end - at, chunks() - first);
          sample(grid, image, first, first + n, source + image * in.image_step, target);
          at += n;
        }
      });
    }
    y.commit(store);
  }
};

// Packing pays where there are as many places as half of the pixels, for pixels of few channels.
int lanes_of(const GridAxis& axis, const Planes& in, const Planes& out) {
  const int64_t pixels = in.size[0] * in.size[1] * in.size[2], places = out.size[0] * out.size[1] * out.size[2];
  const int64_t channels = in.groups * in.width;
  if (axis.between == GridAxis::Between::nearest) return 0;  // each is read once
  if (in.width >= 16 || places * 2 < pixels || (pixels + 1) * kPackedLanes > std::numeric_limits<int32_t>::max())
    return 0;
  return channels == 1 ? 0 : channels == 2 ? 2 : channels <= 4 ? 4 : channels <= 8 ? 8 : kPackedLanes;
}

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
    const GridSampleBody body{x,
                              y,
                              *in,
                              *result,
                              x.rank() - 2,
                              GridAxis(op),
                              float_loader(x.dtype),
                              float_storer(y.dtype),
                              PackedImages(*in, lanes_of(GridAxis(op), *in, *result)),
                              std::min<int64_t>(std::max<int64_t>(result->images, 1), omp_get_max_threads())};
    const bool packs = body.packed.lanes() > 0;
    add_candidate(out, "grid_sample", in->width > 1 || packs ? Quality::fast : Quality::fair, {x, grid}, {y},
                  [body] { return body; });
    Candidate& candidate = out.candidates.back();
    if (packs) candidate.workspace_bytes = size_t(body.slots * body.packed.elements()) * sizeof(float);
    // Of pixels with few channels most of the time goes into lists of pixels, in nanoseconds of two threads.
    const double memory = 0.4 * double(in->width) + 0.4, lists = 6 + 0.08 * double(in->width);
    if (!packs && in->width > 1) candidate.efficiency = std::min(0.7, memory / lists);
  }
}
PL_HOST_KIND("grid_sample", list_grid_sample);

}  // namespace
}  // namespace pl::host
