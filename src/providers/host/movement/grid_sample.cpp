// Kind grid_sample: pixels and weights of each place, then weighted sums of the channels there.
#include <cmath>

#include "providers/host/common/planes.h"
#include "providers/host/movement/weighted_pixels.h"

namespace pl::host {
namespace {

enum class Between { nearest, linear, cubic };
enum class Outside { zeros, border, reflection };

struct Part {
  int64_t pixel;
  float weight;
};

float mirrored(float at, int64_t size, bool corners) {
  const float low = corners ? 0.0f : -0.5f, span = corners ? float(size - 1) : float(size);
  if (span <= 0) return 0;
  const float away = std::fmod(std::fabs(at - low), 2 * span);
  return low + (away > span ? 2 * span - away : away);
}

struct Body {
  TensorDesc x_desc, y_desc;
  Planes in, out;
  int spatial;
  Between between;
  Outside outside;
  bool corners;
  LoadRun<float> load;
  StoreRun<float> store;

  float brought_inside(float at, int64_t size) const {
    if (outside == Outside::reflection) at = mirrored(at, size, corners);
    return outside == Outside::zeros ? at : std::min(std::max(at, 0.0f), float(size - 1));
  }

  // A pixel at a whole number; none where it is outside of the image.
  static void put(float place, float weight, int64_t size, Part* parts, int& count) {
    if (place >= 0 && place <= float(size - 1)) parts[count++] = {int64_t(place), weight};
  }

  // The pixels along one axis, at most four; `at` is from -1 to 1 across the image.
  int along(float at, int64_t size, Part* parts) const {
    at = corners ? (at + 1) / 2 * float(size - 1) : ((at + 1) * float(size) - 1) / 2;
    int count = 0;
    if (between == Between::nearest) {
      put(std::nearbyint(brought_inside(at, size)), 1, size, parts, count);
    } else if (between == Between::linear) {
      at = brought_inside(at, size);
      const float before = std::floor(at);
      put(before, before + 1 - at, size, parts, count);
      put(before + 1, at - before, size, parts, count);
    } else {
      constexpr float a = -0.75f;
      const float before = std::floor(at), share = at - before;
      const auto inner = [](float d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
      const auto outer = [](float d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
      const float weights[4] = {outer(1 + share), inner(share), inner(1 - share), outer(2 - share)};
      for (int k = 0; k < 4; ++k) {
        // At a border two pixels may be the same one.
        put(brought_inside(before + float(k - 1), size), weights[k], size, parts, count);
      }
    }
    return count;
  }

  void operator()(const KernelArguments& arguments) const {
    const int64_t rows = out.images * out.size[0] * out.size[1], length = out.size[2];
    if (rows * length == 0) return;
    Staged<float> x(x_desc, input(arguments, 0), load), y(y_desc, output(arguments));
    const float* source = x.get();
    const float* grid = static_cast<const float*>(input(arguments, 1));
    float* target = y.get();
    const double work = double(length) * (double(in.groups * in.width) * (in.width == 1 ? 4.0 : 0.5) + 30);
    parallel_for(rows, work, [&](int64_t begin, int64_t end) {
      std::vector<WeightedPixel> pixels;
      std::vector<size_t> first;
      for (int64_t row = begin; row < end; ++row) {
        pixels.clear();
        first.assign(1, 0);
        for (int64_t w = 0; w < length; ++w) {
          const float* place = grid + (row * length + w) * spatial;
          Part parts[3][4];
          int count[3];
          for (int d = 0; d < 3; ++d) {
            const int axis = d - (3 - spatial);
            parts[d][0] = {0, 1};
            count[d] = axis < 0 ? 1 : along(place[spatial - 1 - axis], in.size[d], parts[d]);
          }
          for (int i = 0; i < count[0]; ++i)
            for (int j = 0; j < count[1]; ++j)
              for (int k = 0; k < count[2]; ++k)
                pixels.push_back(
                    {parts[0][i].pixel * in.step[0] + parts[1][j].pixel * in.step[1] + parts[2][k].pixel * in.step[2],
                     parts[0][i].weight * parts[1][j].weight * parts[2][k].weight});
          first.push_back(pixels.size());
        }
        const int64_t h = row % out.size[1], d = row / out.size[1] % out.size[0],
                      image = row / out.size[1] / out.size[0];
        for (int64_t group = 0; group < in.groups; ++group) {
          const float* plane = source + image * in.image_step + group * in.group_step;
          float* to = target + image * out.image_step + group * out.group_step + d * out.step[0] + h * out.step[1];
          for (int64_t w = 0; w < length; ++w) {
            const WeightedPixel* list = pixels.data() + first[size_t(w)];
            const auto count = int64_t(first[size_t(w) + 1] - first[size_t(w)]);
            if (in.width == 1)
              to[w] = sum_pixels(plane, list, count);
            else
              sum_pixels(plane, list, count, to + w * in.width, in.width);
          }
        }
      }
    });
    y.commit(store);
  }
};

void list(const Op& op, CandidateList& out) {
  const std::string &mode = op.attributes.text("mode"), &padding = op.attributes.text("padding_mode");
  const Between between = mode == "nearest"                 ? Between::nearest
                          : mode.find("cubic") != mode.npos ? Between::cubic
                                                            : Between::linear;
  const Outside outside = padding == "zeros"    ? Outside::zeros
                          : padding == "border" ? Outside::border
                                                : Outside::reflection;
  const TensorDesc grid = dense_plain(op.in(1));
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    const auto in = Planes::of(x), result = Planes::of(y);
    if (!in || !result) continue;
    const Body body{x,
                    y,
                    *in,
                    *result,
                    x.rank() - 2,
                    between,
                    outside,
                    op.attributes.flag("align_corners"),
                    float_loader(x.dtype),
                    float_storer(y.dtype)};
    add_candidate(out, "grid_sample", in->width > 1 ? Quality::fast : Quality::fair, {x, grid}, {y},
                  [body] { return body; });
  }
}
PL_HOST_KIND("grid_sample", list);

}  // namespace
}  // namespace pl::host
