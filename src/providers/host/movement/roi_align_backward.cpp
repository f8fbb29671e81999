// Kind roi_align_backward.  Where boxes lie first, some of them at a time; then threads share the channels, and each
// adds to its own in the order of boxes and bins.
#include <algorithm>
#include <limits>
#include <vector>

#include "providers/host/common/planes.h"
#include "providers/host/movement/roi_axis.h"

namespace pl::host {
namespace {

constexpr int64_t kRegionChannels = 32;  // neighbouring ones that a thread takes
constexpr int64_t kBoxes = 64;           // whose places are known at once

struct RoiAlignBackwardBody {
  TensorDesc grad_desc, x_desc;
  Planes of_grad, of_x;
  int64_t boxes;
  RoiSampling sampling;
  LoadRun<float> load;
  LoadRun<int64_t> load_images;
  StoreRun<float> store;

  // Of the largest weighted pixel, the first of those that are equal.
  void derive_largest(const RoiPlace& at, int64_t h, int64_t w, const float* grad, const float* x, int64_t channels,
                      float* dx) const {
    for (int64_t c = 0; c < channels; ++c) {
      float most = -std::numeric_limits<float>::infinity(), of_most = 0;
      int64_t place = 0;
      at.for_each_pixel(of_x, h, w, [&](int64_t offset, float weight) {
        if (!(weight * x[offset + c] > most)) return;
        most = weight * x[offset + c];
        of_most = weight;
        place = offset;
      });
      dx[place + c] += of_most * grad[c];
    }
  }

  void derive_box(const RoiPlace& at, const float* grad, const float* x, int64_t channels, float* dx) const {
    for (int64_t h = 0; h < of_grad.size[1]; ++h)
      for (int64_t w = 0; w < of_grad.size[2]; ++w) {
        const float* given = grad + h * of_grad.step[1] + w * of_grad.step[2];
        if (sampling.largest) {
          derive_largest(at, h, w, given, x, channels, dx);
          continue;
        }
        const auto bin = size_t(h * of_grad.size[2] + w);
        for (size_t k = at.begin[bin]; k < at.begin[bin + 1]; ++k) {
          const WeightedPixel& pixel = at.pixels[k];
          for (int64_t c = 0; c < channels; ++c) dx[pixel.offset + c] += pixel.weight * given[c];
        }
      }
  }

  void operator()(const KernelArguments& arguments) const {
    std::vector<int64_t> images(size_t(boxes), 0);
    if (boxes) load_images(input(arguments, 3), 0, 1, boxes, images.data());
    check_images("roi_align_backward", images, of_x.images);
    Staged<float> grad(grad_desc, input(arguments, 0), load), x(x_desc, input(arguments, 1), load);
    Staged<float> dx(x_desc, output(arguments));
    const float* corners = static_cast<const float*>(input(arguments, 2));
    const int64_t elements = x_desc.elements() ? x_desc.padded_elements() : 0;
    parallel_for(elements, 0.1, [&](int64_t begin, int64_t end) { std::fill(dx.get() + begin, dx.get() + end, 0.0f); });
    const int64_t parts = (of_x.width + kRegionChannels - 1) / kRegionChannels;
    const double work = double(of_grad.size[1] * of_grad.size[2] * std::min(of_x.width, kRegionChannels)) * 16;
    std::vector<RoiPlace> places(size_t(std::min(boxes, kBoxes)));
    for (int64_t first = 0; first < boxes; first += kBoxes) {
      const int64_t count = std::min(kBoxes, boxes - first);
      parallel_for(count, 500, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
          places[size_t(k)].find(sampling, corners + 4 * (first + k), of_x, of_grad);
      });
      parallel_for(of_x.groups * parts, work * double(count), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t group = task / parts, channel = task % parts * kRegionChannels;
          const int64_t in_x = group * of_x.group_step + channel;
          for (int64_t k = 0; k < count; ++k) {
            const int64_t image = images[size_t(first + k)] * of_x.image_step + in_x;
            derive_box(places[size_t(k)],
                       grad.get() + (first + k) * of_grad.image_step + group * of_grad.group_step + channel,
                       x.get() + image, std::min(kRegionChannels, of_x.width - channel), dx.get() + image);
          }
        }
      });
    }
    dx.commit(store);
  }
};

void list_roi_align_backward(const Op& op, CandidateList& out) {
  const TensorDesc boxes = dense_plain(op.in(2)), images = dense_plain(op.in(3));
  for (const Layout& layout : layouts_to_try(op, op.in(1))) {
    const TensorDesc grad = op.in(0).with_layout(layout), x = op.in(1).with_layout(layout);
    const auto of_grad = Planes::of(grad), of_x = Planes::of(x);
    if (!of_grad || !of_x) continue;
    const RoiAlignBackwardBody body{grad,
                                    x,
                                    *of_grad,
                                    *of_x,
                                    boxes.shape[0],
                                    RoiSampling(op),
                                    float_loader(x.dtype),
                                    integer_loader(images.dtype),
                                    float_storer(x.dtype)};
    add_candidate(out, "roi_align_backward", of_x->width > 1 ? Quality::fast : Quality::fair, {grad, x, boxes, images},
                  {x}, [body] { return body; });
  }
}
PL_HOST_KIND("roi_align_backward", list_roi_align_backward);

}  // namespace
}  // namespace pl::host
