// Kind roi_align.  The bilinear weights of a bin's samples are products of weights along h and along w, and so is their
// sum: the pixels of a bin are a rectangle with one weight for each row and each column.
#include <cmath>

#include "providers/host/common/independent.h"
#include "providers/host/common/planes.h"
#include "providers/host/movement/weighted_pixels.h"

namespace pl::host {
namespace {

constexpr int64_t kMostSamples = 1 << 12;  // of a bin along one axis, where the size of a box says how many

struct Part {
  int64_t pixel;
  float weight;
};

// A sample along one axis: the pixels on both sides, the same one twice at the border; weights 0 far outside.
struct Sample {
  Part before, behind;
};

struct Axis {
  int64_t bins = 0, each = 0;   // samples of a bin
  std::vector<Sample> samples;  // of all bins, in order

  // In f32, as other implementations: near a border the rounding decides.
  void place(float first, float end, int64_t count, int64_t ratio, bool aligned, int64_t size) {
    float length = end - first;
    if (!aligned) length = std::max(length, 1.0f);
    const float bin = length / float(count);
    const float wanted = std::ceil(bin);
    bins = count;
    each = ratio > 0 ? ratio : wanted >= 1 ? int64_t(std::min(wanted, float(kMostSamples))) : 0;
    samples.clear();
    for (int64_t i = 0; i < bins; ++i)
      for (int64_t k = 0; k < each; ++k) {
        float at = first + float(i) * bin + (float(k) + 0.5f) * bin / float(each);
        if (!(at >= -1.0f && at <= float(size))) {  // a NaN, too
          samples.push_back({{0, 0}, {0, 0}});
          continue;
        }
        at = std::max(at, 0.0f);
        const int64_t before = std::min(int64_t(at), size - 1), behind = std::min(before + 1, size - 1);
        const float share = before < size - 1 ? at - float(before) : 0.0f;
        samples.push_back({{before, 1 - share}, {behind, share}});
      }
  }

  // The pixels of a bin, each once, with the sums of their weights.
  void merge(int64_t bin, std::vector<Part>& parts) const {
    parts.clear();
    const auto add = [&](const Part& part) {
      if (part.weight == 0) return;
      for (size_t k = parts.size(); k-- > 0 && parts.size() - k <= 2;)
        if (parts[k].pixel == part.pixel) {
          parts[k].weight += part.weight;
          return;
        }
      parts.push_back(part);
    };
    for (int64_t k = bin * each; k < (bin + 1) * each; ++k) {
      add(samples[size_t(k)].before);
      add(samples[size_t(k)].behind);
    }
  }
};

PL_VECTORISED void keep_largest(const float* x, float weight, float* __restrict out, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = out[i] > weight * x[i] ? out[i] : weight * x[i];
}

struct Body {
  TensorDesc x_desc, y_desc;
  Planes in, out;
  int64_t boxes, ratio;
  float scale;
  bool aligned, largest;
  LoadRun<float> load;
  LoadRun<int64_t> load_images;
  StoreRun<float> store;

  // The bins of one box, (bins, in.width) for each group of channels, in `bins`.
  struct Place {
    Axis rows, columns;
    std::vector<WeightedPixel> pixels;  // of all bins
    std::vector<size_t> begin;          // of each bin, and the end of the last
  };

  void place(const float* box, Place& at) const {
    const float shift = aligned ? 0.5f : 0.0f;
    at.rows.place(box[1] * scale - shift, box[3] * scale - shift, out.size[1], ratio, aligned, in.size[1]);
    at.columns.place(box[0] * scale - shift, box[2] * scale - shift, out.size[2], ratio, aligned, in.size[2]);
    at.pixels.clear();
    at.begin.assign(1, 0);
    if (largest) return;
    std::vector<std::vector<Part>> columns(size_t(out.size[2]));
    for (int64_t w = 0; w < out.size[2]; ++w) at.columns.merge(w, columns[size_t(w)]);
    std::vector<Part> rows;
    const float each = 1.0f / float(std::max<int64_t>(1, at.rows.each * at.columns.each));
    for (int64_t h = 0; h < out.size[1]; ++h) {
      at.rows.merge(h, rows);
      for (int64_t w = 0; w < out.size[2]; ++w) {
        for (const Part& row : rows)
          for (const Part& column : columns[size_t(w)])
            at.pixels.push_back(
                {row.pixel * in.step[1] + column.pixel * in.step[2], row.weight * column.weight * each});
        at.begin.push_back(at.pixels.size());
      }
    }
  }

  void mean(const float* plane, const Place& at, float* bins) const {
    for (size_t b = 0; b + 1 < at.begin.size(); ++b) {
      const WeightedPixel* pixels = at.pixels.data() + at.begin[b];
      const auto count = int64_t(at.begin[b + 1] - at.begin[b]);
      if (in.width == 1)
        bins[b] = sum_pixels(plane, pixels, count);
      else
        sum_pixels(plane, pixels, count, bins + int64_t(b) * in.width, in.width);
    }
  }

  void most(const float* plane, const Place& at, float* bins) const {
    for (int64_t h = 0; h < out.size[1]; ++h)
      for (int64_t w = 0; w < out.size[2]; ++w, bins += in.width) {
        const bool none = at.rows.each * at.columns.each == 0;
        std::fill(bins, bins + in.width, none ? 0.0f : -std::numeric_limits<float>::infinity());
        for (int64_t i = h * at.rows.each; i < (h + 1) * at.rows.each; ++i)
          for (int64_t j = w * at.columns.each; j < (w + 1) * at.columns.each; ++j) {
            const Sample &row = at.rows.samples[size_t(i)], &column = at.columns.samples[size_t(j)];
            for (const Part& r : {row.before, row.behind})
              for (const Part& c : {column.before, column.behind})
                keep_largest(plane + r.pixel * in.step[1] + c.pixel * in.step[2], r.weight * c.weight, bins, in.width);
          }
      }
  }

  void operator()(const KernelArguments& arguments) const {
    if (boxes == 0) return;
    std::vector<int64_t> images(static_cast<size_t>(boxes));
    load_images(input(arguments, 2), 0, 1, boxes, images.data());
    for (int64_t k = 0; k < boxes; ++k)
      require(images[size_t(k)] >= 0 && images[size_t(k)] < in.images, Code::invalid_argument,
              "roi_align: images holds ", images[size_t(k)], " at element ", k, ", expected 0 to ", in.images - 1);
    Staged<float> x(x_desc, input(arguments, 0), load), y(y_desc, output(arguments));
    const float* source = x.get();
    const float* corners = static_cast<const float*>(input(arguments, 1));
    float* target = y.get();
    const int64_t bins = out.size[1] * out.size[2];
    const double work = double(in.groups * in.width * bins) * (in.width == 1 ? 8.0 : 1.0) + 500;
    parallel_for(boxes, work, [&](int64_t begin, int64_t end) {
      Place at;
      std::vector<float> buffer(size_t(bins * in.width));
      for (int64_t k = begin; k < end; ++k) {
        place(corners + 4 * k, at);
        for (int64_t group = 0; group < in.groups; ++group) {
          const float* plane = source + images[size_t(k)] * in.image_step + group * in.group_step;
          if (largest)
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

void list(const Op& op, CandidateList& out) {
  const TensorDesc boxes = dense_plain(op.in(1)), images = dense_plain(op.in(2));
  const auto add = [&](const Layout& of_x, const Layout& of_y, const char* name, Quality quality) {
    const TensorDesc x = op.in(0).with_layout(of_x), y = op.out().with_layout(of_y);
    const auto in = Planes::of(x), result = Planes::of(y);
    if (!in || !result) return;
    const Body body{x,
                    y,
                    *in,
                    *result,
                    boxes.shape[0],
                    op.attributes.integer("sampling_ratio"),
                    float(op.attributes.number("spatial_scale")),
                    op.attributes.flag("aligned"),
                    op.attributes.text("mode") == "max",
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
PL_HOST_KIND("roi_align", list);

}  // namespace
}  // namespace pl::host
