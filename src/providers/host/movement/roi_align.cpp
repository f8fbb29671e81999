// Kind roi_align.  The bilinear weights of a bin's samples are products of weights along h and along w, and so is their
// sum: the pixels of a bin are a rectangle with one weight for each row and each column.
#include "providers/host/common/independent.h"
#include "providers/host/common/planes.h"
#include "providers/host/movement/roi_axis.h"

namespace pl::host {
namespace {

PL_VECTORISED void keep_largest(const float* x, float weight, float* __restrict out, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float weighted = weight == 0 ? 0.0f : weight * x[i];  // infinity without weight, too
    out[i] = out[i] > weighted ? out[i] : weighted;
  }
}

struct RoiAlignBody {
  TensorDesc x_desc, y_desc;
  Planes in, out;
  int64_t boxes;
  RoiSampling sampling;
  LoadRun<float> load;
  LoadRun<int64_t> load_images;
  StoreRun<float> store;

  void mean(const float* plane, const RoiPlace& at, float* bins) const {
    for (size_t b = 0; b + 1 < at.begin.size(); ++b) {
      const WeightedPixel* pixels = at.pixels.data() + at.begin[b];
      const auto count = int64_t(at.begin[b + 1] - at.begin[b]);
      if (in.width == 1)
        bins[b] = sum_pixels(plane, pixels, count);
      else
        sum_pixels(plane, pixels, count, bins + int64_t(b) * in.width, in.width);
    }
  }

  void most(const float* plane, const RoiPlace& at, float* bins) const {
    for (int64_t h = 0; h < out.size[1]; ++h)
      for (int64_t w = 0; w < out.size[2]; ++w, bins += in.width) {
        const bool none = at.rows.each * at.columns.each == 0;
        std::fill(bins, bins + in.width, none ? 0.0f : -std::numeric_limits<float>::infinity());
        at.for_each_pixel(in, h, w,
                          [&](int64_t offset, float weight) { keep_largest(plane + offset, weight, bins, in.width); });
      }
  }

  void operator()(const KernelArguments& arguments) const {
    if (boxes == 0) return;
    std::vector<int64_t> images(static_cast<size_t>(boxes));
    load_images(input(arguments, 2), 0, 1, boxes, images.data());
    check_images("roi_align", images, in.images);
    Staged<float> x(x_desc, input(arguments, 0), load), y(y_desc, output(arguments));
    const float* source = x.get();
    const float* corners = static_cast<const float*>(input(arguments, 1));
    float* target = y.get();
    const int64_t bins = out.size[1] * out.size[2];
    const double work = double(in.groups * in.width * bins) * (in.width == 1 ? 8.0 : 1.0) + 500;
    parallel_for(boxes, work, [&](int64_t begin, int64_t end) {
      RoiPlace at;
      std::vector<float> buffer(size_t(bins * in.width));
      for (int64_t k = begin; k < end; ++k) {
        at.find(sampling, corners + 4 * k, in, out);
        for (int64_t group = 0; group < in.groups; ++group) {
          const float* plane = source + images[size_t(k)] * in.image_step + group * in.group_step;
          if (sampling.largest)
            most(plane, at, buffer.data());
          else
            mean(plane, at, buffer.data());
          // Bins lie apart by the channels of a group here, in the result by its own.
          float* to = target + k * out.image_step;
          if (out.width == in.width) {
            std::copy(buffer.begin(), buffer.end(), to + group * out.group_step);
            continue;
          }
          for (int64_t c = 0; c < in.width; ++c)
            for (int64_t b = 0; b < bins; ++b)
              to[(group * in.width + c) * out.group_step + b] = buffer[size_t(b * in.width + c)];
        }
      }
    });
    y.commit(store);
  }
};

void list_roi_align(const Op& op, CandidateList& out) {
  const TensorDesc boxes = dense_plain(op.in(1)), images = dense_plain(op.in(2));
  const auto add = [&](const Layout& of_x, const Layout& of_y, const char* name, Quality quality) {
    const TensorDesc x = op.in(0).with_layout(of_x), y = op.out().with_layout(of_y);
    const auto in = Planes::of(x), result = Planes::of(y);
    if (!in || !result) return;
    const RoiAlignBody body{x,
                            y,
                            *in,
                            *result,
                            boxes.shape[0],
                            RoiSampling(op),
                            float_loader(x.dtype),
                            integer_loader(images.dtype),
                            float_storer(y.dtype)};
    add_candidate(out, name, quality, {x, boxes, images}, {y}, [body] { return body; });
  };
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const auto planes = Planes::of(op.in(0).with_layout(layout));
    const bool vectors = planes && planes->width > 1;
    add(layout, layout, "roi_align", vectors ? Quality::fast : Quality::reference);
    if (vectors && layout == Layout::channels_last(4))
      add(layout, Layout::plain(4), "roi_align_to_planes", Quality::fast);
  }
}
PL_HOST_KIND("roi_align", list_roi_align);

}  // namespace
}  // namespace pl::host
