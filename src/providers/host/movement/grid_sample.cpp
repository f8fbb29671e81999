// Kind grid_sample: pixels and weights of each place, then weighted sums of the channels there.
#include "providers/host/common/planes.h"
#include "providers/host/movement/grid_axis.h"
#include "providers/host/movement/weighted_pixels.h"

namespace pl::host {
namespace {

struct GridSampleBody {
  TensorDesc x_desc, y_desc;
  Planes in, out;
  int spatial;
  GridAxis axis;
  LoadRun<float> load;
  StoreRun<float> store;

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
          GridPart parts[3][4];
          int count[3];
          parts_of_place(axis, grid + (row * length + w) * spatial, spatial, in.size, parts, count);
          for_each_pixel(in.step, parts, count, [&](int64_t offset, int i, int j, int k) {
            pixels.push_back({offset, parts[0][i].weight * parts[1][j].weight * parts[2][k].weight});
          });
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

void list_grid_sample(const Op& op, CandidateList& out) {
  const TensorDesc grid = dense_plain(op.in(1));
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    const auto in = Planes::of(x), result = Planes::of(y);
    if (!in || !result) continue;
    const GridSampleBody body{
        x, y, *in, *result, x.rank() - 2, GridAxis(op), float_loader(x.dtype), float_storer(y.dtype)};
    add_candidate(out, "grid_sample", in->width > 1 ? Quality::fast : Quality::fair, {x, grid}, {y},
                  [body] { return body; });
  }
}
PL_HOST_KIND("grid_sample", list_grid_sample);

}  // namespace
}  // namespace pl::host
