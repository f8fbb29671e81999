// Kind grid_sample_backward: image by image, the pixels and weights of all places first.  The gradient by x: threads
// share the channels, each adds to its own in the order of places.  That by the grid: threads share the places.
#include <algorithm>
#include <vector>

#include "providers/host/common/planes.h"
#include "providers/host/movement/grid_axis.h"
#include "providers/host/movement/weighted_pixels.h"

namespace pl::host {
namespace {

constexpr int64_t kSampleChannels = 32;  // neighbouring ones that a thread takes

struct GridSampleBackwardBody {
  TensorDesc grad_desc, x_desc;
  Planes of_grad, of_x;
  int spatial;
  GridAxis axis;
  LoadRun<float> load;
  StoreRun<float> store;

  int64_t places() const { return of_grad.size[0] * of_grad.size[1] * of_grad.size[2]; }
  int64_t offset_in_grad(int64_t place) const {
    const int64_t w = place % of_grad.size[2], rest = place / of_grad.size[2];
    return rest / of_grad.size[1] * of_grad.step[0] + rest % of_grad.size[1] * of_grad.step[1] + w * of_grad.step[2];
  }

  // How many of the pixels of each place there are, `most` entries for each place.
  void list_pixels(const float* grid, int64_t most, std::vector<WeightedPixel>& pixels,
                   std::vector<int>& counts) const {
    parallel_for(places(), 60, [&](int64_t begin, int64_t end) {
      for (int64_t place = begin; place < end; ++place) {
        GridPart parts[3][4];
        int count[3];
        parts_of_place(axis, grid + place * spatial, spatial, of_x.size, parts, count);
        WeightedPixel* to = pixels.data() + place * most;
        for_each_pixel(of_x.step, parts, count, [&](int64_t offset, int i, int j, int k) {
          *to++ = {offset, parts[0][i].weight * parts[1][j].weight * parts[2][k].weight};
        });
        counts[size_t(place)] = int(to - (pixels.data() + place * most));
      }
    });
  }

  void derive_image(const float* grad, int64_t most, const std::vector<WeightedPixel>& pixels,
                    const std::vector<int>& counts, float* dx) const {
    const int64_t parts = (of_x.width + kSampleChannels - 1) / kSampleChannels;
    const double work = double(places()) * double(most) * double(std::min(of_x.width, kSampleChannels));
    parallel_for(of_x.groups * parts, work, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / parts, first = task % parts * kSampleChannels;
        const int64_t channels = std::min(kSampleChannels, of_x.width - first);
        const float* from = grad + group * of_grad.group_step + first;
        float* to = dx + group * of_x.group_step + first;
        for (int64_t place = 0; place < places(); ++place) {
          const float* given = from + offset_in_grad(place);
          for (int k = 0; k < counts[size_t(place)]; ++k) {
            const WeightedPixel& pixel = pixels[size_t(place * most + k)];
            for (int64_t c = 0; c < channels; ++c) to[pixel.offset + c] += pixel.weight * given[c];
          }
        }
      }
    });
  }

  void derive_grid(const float* grad, const float* x, const float* grid, float* dgrid) const {
    const double work = double(of_x.groups * of_x.width) * 4 + 60;
    parallel_for(places(), work, [&](int64_t begin, int64_t end) {
      for (int64_t place = begin; place < end; ++place) {
        GridPart parts[3][4];
        int count[3];
        parts_of_place(axis, grid + place * spatial, spatial, of_x.size, parts, count);
        const float* given = grad + offset_in_grad(place);
        float sums[3] = {};
        for_each_pixel(of_x.step, parts, count, [&](int64_t offset, int i, int j, int k) {
          float product = 0;
          for (int64_t group = 0; group < of_x.groups; ++group)
            for (int64_t c = 0; c < of_x.width; ++c)
              product += given[group * of_grad.group_step + c] * x[offset + group * of_x.group_step + c];
          const GridPart &a = parts[0][i], &b = parts[1][j], &c = parts[2][k];
          sums[0] += product * a.slope * b.weight * c.weight;
          sums[1] += product * a.weight * b.slope * c.weight;
          sums[2] += product * a.weight * b.weight * c.slope;
        });
        for (int d = 0; d < spatial; ++d) dgrid[place * spatial + d] = sums[2 - d];
      }
    });
  }

  void operator()(const KernelArguments& arguments) const {
    Staged<float> grad(grad_desc, input(arguments, 0), load), x(x_desc, input(arguments, 1), load);
    Staged<float> dx(x_desc, output(arguments, 0));
    const float* grid = static_cast<const float*>(input(arguments, 2));
    float* dgrid = static_cast<float*>(output(arguments, 1));
    const int64_t elements = x_desc.elements() ? x_desc.padded_elements() : 0;
    parallel_for(elements, 0.1, [&](int64_t begin, int64_t end) { std::fill(dx.get() + begin, dx.get() + end, 0.0f); });
    int64_t most = 1;
    for (int d = 0; d < spatial; ++d) most *= axis.most_parts();
    std::vector<WeightedPixel> pixels(size_t(places() * most));
    std::vector<int> counts(size_t(places()), 0);
    for (int64_t image = 0; image < of_x.images; ++image) {
      const float* of_image = grid + image * places() * spatial;
      const float* given = grad.get() + image * of_grad.image_step;
      list_pixels(of_image, most, pixels, counts);
      derive_image(given, most, pixels, counts, dx.get() + image * of_x.image_step);
      derive_grid(given, x.get() + image * of_x.image_step, of_image, dgrid + image * places() * spatial);
    }
    dx.commit(store);
  }
};

void list_grid_sample_backward(const Op& op, CandidateList& out) {
  const TensorDesc grid = dense_plain(op.in(2)), dgrid = dense_plain(op.out(1));
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc grad = op.in(0).with_layout(layout), x = op.in(1).with_layout(layout);
    const auto of_grad = Planes::of(grad), of_x = Planes::of(x);
    if (!of_grad || !of_x) continue;
    const GridSampleBackwardBody body{
        grad, x, *of_grad, *of_x, x.rank() - 2, GridAxis(op), float_loader(x.dtype), float_storer(x.dtype)};
    add_candidate(out, "grid_sample_backward", of_x->width > 1 ? Quality::fast : Quality::fair, {grad, x, grid},
                  {x, dgrid}, [body] { return body; });
  }
}
PL_HOST_KIND("grid_sample_backward", list_grid_sample_backward);

}  // namespace
}  // namespace pl::host
