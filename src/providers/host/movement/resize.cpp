// Kinds resize and resize_backward: nearest and linear interpolation, with torch's source coordinates.
//
// Along each axis an output position has two source positions and the weight of the second (the same one, weight 0,
// for nearest).  Pixels of several channels are weighted as vectors; with pixels of one channel the rows of the input
// are weighted first, then neighbours in the row.
#include <cmath>

#include "providers/host/common/independent.h"
#include "providers/host/common/planes.h"

namespace pl::host {
namespace {

struct Taps {
  int64_t first, second;
  float weight;  // of the second
};

std::vector<Taps> taps_of(int64_t in, int64_t out, double scale, bool nearest, bool align) {
  std::vector<Taps> taps;
  for (int64_t i = 0; i < out; ++i) {
    if (nearest) {
      // In f32, as torch: at large sizes the rounding of the product decides.
      const int64_t at = std::min(int64_t(std::floor(float(i) * float(scale))), in - 1);
      taps.push_back({at, at, 0});
      continue;
    }
    const double source = align ? double(i) * scale : std::max((double(i) + 0.5) * scale - 0.5, 0.0);
    const int64_t first = std::min(int64_t(source), in - 1);
    taps.push_back({first, std::min(first + 1, in - 1), float(source - double(first))});
  }
  return taps;
}

PL_VECTORISED void weigh(const float* a, const float* b, float weight, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = (1.0f - weight) * a[i] + weight * b[i];
}
PL_VECTORISED void pick(const float* row, const Taps* taps, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float a = row[taps[i].first], b = row[taps[i].second];
    out[i] = (1.0f - taps[i].weight) * a + taps[i].weight * b;
  }
}

struct LinearBody {
  TensorDesc x_desc, y_desc;
  Planes in, out;
  std::vector<Taps> taps[3];
  LoadRun<float> load;
  StoreRun<float> store;

  // The pixels of one output row: out.size[2] * width values from four input rows.
  void row(const float* x, int64_t od, int64_t oh, float* y, float* buffer) const {
    const Taps &d = taps[0][size_t(od)], &h = taps[1][size_t(oh)];
    const int64_t width = in.width, length = in.size[2] * width;
    const float* rows[4];
    for (int i = 0; i < 4; ++i)
      rows[i] = x + (i & 2 ? d.second : d.first) * in.step[0] + (i & 1 ? h.second : h.first) * in.step[1];
    // A row of the input's width, weighted over d and h.
    const float* source = rows[0];
    if (h.weight != 0) {
      weigh(rows[0], rows[1], h.weight, buffer, length);
      source = buffer;
    }
    if (d.weight != 0) {
      const float* second = rows[2];
      if (h.weight != 0) {
        weigh(rows[2], rows[3], h.weight, buffer + length, length);
        second = buffer + length;
      }
      weigh(source, second, d.weight, buffer, length);
      source = buffer;
    }
    if (width == 1) return pick(source, taps[2].data(), y, out.size[2]);
    for (int64_t ow = 0; ow < out.size[2]; ++ow) {
      const Taps& w = taps[2][size_t(ow)];
      weigh(source + w.first * width, source + w.second * width, w.weight, y + ow * width, width);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    Staged<float> x(x_desc, input(arguments, 0), load), y(y_desc, output(arguments));
    const int64_t rows = out.images * out.groups * out.size[0] * out.size[1], length = in.size[2] * in.width;
    const float* source = x.get();
    float* target = y.get();
    parallel_for(rows, double(length + out.size[2] * out.width) + 20, [&](int64_t begin, int64_t end) {
      const std::unique_ptr<float[]> buffer(new float[size_t(2 * length)]);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t oh = i % out.size[1], od = i / out.size[1] % out.size[0], plane = i / out.size[1] / out.size[0];
        const int64_t group = plane % out.groups, image = plane / out.groups;
        row(source + image * in.image_step + group * in.group_step, od, oh,
            target + image * out.image_step + group * out.group_step + od * out.step[0] + oh * out.step[1],
            buffer.get());
      }
    });
    y.commit(store);
  }
};

// Elements are only moved.
template <class T>
struct NearestBody {
  Planes in, out;
  std::vector<Taps> taps[3];

  void operator()(const KernelArguments& arguments) const {
    const T* source = static_cast<const T*>(input(arguments, 0));
    T* target = static_cast<T*>(output(arguments));
    const int64_t rows = out.images * out.groups * out.size[0] * out.size[1];
    parallel_for(rows, 0.5 * double(out.size[2] * out.width) + 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t oh = i % out.size[1], od = i / out.size[1] % out.size[0], plane = i / out.size[1] / out.size[0];
        const int64_t group = plane % out.groups, image = plane / out.groups;
        const T* from = source + image * in.image_step + group * in.group_step +
                        taps[0][size_t(od)].first * in.step[0] + taps[1][size_t(oh)].first * in.step[1];
        T* to = target + image * out.image_step + group * out.group_step + od * out.step[0] + oh * out.step[1];
        for (int64_t ow = 0; ow < out.size[2]; ++ow, to += out.width) {
          const T* pixel = from + taps[2][size_t(ow)].first * in.width;
          if (in.width == 1)
            *to = *pixel;
          else
            std::memcpy(to, pixel, size_t(in.width) * sizeof(T));
        }
      }
    });
  }
};

void list_resize(const Op& op, CandidateList& out) {
  const bool nearest = op.attributes[attr::mode] == "nearest", align = op.attributes[attr::align_corners];
  const std::vector<double>& scale = op.attributes[attr::scale_floats];
  const DType dtype = op.in(0).dtype;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    const auto in = Planes::of(x), result = Planes::of(y);
    if (!in || !result) continue;
    const auto tables = [=](std::vector<Taps>(&taps)[3]) {
      const int spatial = x.rank() - 2;
      for (int i = 0; i < 3; ++i) {
        const int axis = i - (3 - spatial);
        taps[i] = axis < 0 ? std::vector<Taps>{{0, 0, 0}}
                           : taps_of(in->size[i], result->size[i], scale[size_t(axis)], nearest, align);
      }
    };
    if (!nearest) {
      add_candidate(out, "resize_linear", Quality::fast, {x}, {y}, [=] {
        LinearBody body{x, y, *in, *result, {}, float_loader(dtype), float_storer(dtype)};
        tables(body.taps);
        return body;
      });
      continue;
    }
    const auto add_nearest = [&](auto element) {
      using T = decltype(element);
      add_candidate(out, "resize_nearest", Quality::fast, {x}, {y}, [=] {
        NearestBody<T> body{*in, *result, {}};
        tables(body.taps);
        return body;
      });
    };
    switch (size_of(dtype)) {
      case 1: add_nearest(uint8_t{}); break;
      case 2: add_nearest(uint16_t{}); break;
      case 4: add_nearest(uint32_t{}); break;
      default: add_nearest(uint64_t{}); break;
    }
  }
}
PL_HOST_KIND("resize", list_resize);

// An output position that reads an input position, and the input's weight there.
struct Reader {
  int64_t at;
  float weight;
};

// By input position, its readers in ascending order.
std::vector<std::vector<Reader>> readers_of(const std::vector<Taps>& taps, int64_t in) {
  std::vector<std::vector<Reader>> readers(static_cast<size_t>(in));
  for (size_t i = 0; i < taps.size(); ++i) {
    const Taps& tap = taps[i];
    if (tap.weight != 1) readers[size_t(tap.first)].push_back({int64_t(i), 1.0f - tap.weight});
    if (tap.weight != 0) readers[size_t(tap.second)].push_back({int64_t(i), tap.weight});
  }
  return readers;
}

PL_VECTORISED void add_weighed(const float* __restrict a, float weight, float* __restrict out, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] += weight * a[i];
}

// A row of the input is the sum of the gradient's rows that read it, then along the row alike.
struct BackwardBody {
  TensorDesc grad_desc, dx_desc;
  Planes grad, dx;
  std::vector<std::vector<Reader>> readers[3];
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    Staged<float> from(grad_desc, input(arguments, 0), load), to(dx_desc, output(arguments));
    const int64_t width = dx.width, length = grad.size[2] * width;
    const int64_t rows = dx.images * dx.groups * dx.size[0] * dx.size[1];
    const double each = double(dx.size[2] * width + 2 * length * grad.size[0] * grad.size[1] /
                                                        std::max<int64_t>(1, dx.size[0] * dx.size[1]));
    const float* source = from.get();
    float* target = to.get();
    parallel_for(rows, each + 20, [&](int64_t begin, int64_t end) {
      std::vector<float> sum(static_cast<size_t>(length));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t h = i % dx.size[1], d = i / dx.size[1] % dx.size[0], plane = i / dx.size[1] / dx.size[0];
        const int64_t group = plane % dx.groups, image = plane / dx.groups;
        const float* gradients = source + image * grad.image_step + group * grad.group_step;
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (const Reader& outer : readers[0][size_t(d)])
          for (const Reader& inner : readers[1][size_t(h)])
            add_weighed(gradients + outer.at * grad.step[0] + inner.at * grad.step[1], outer.weight * inner.weight,
                        sum.data(), length);
        float* row = target + image * dx.image_step + group * dx.group_step + d * dx.step[0] + h * dx.step[1];
        std::fill(row, row + dx.size[2] * width, 0.0f);
        for (int64_t w = 0; w < dx.size[2]; ++w)
          for (const Reader& reader : readers[2][size_t(w)])
            add_weighed(sum.data() + reader.at * width, reader.weight, row + w * width, width);
      }
    });
    to.commit(store);
  }
};

void list_backward(const Op& op, CandidateList& out) {
  const bool nearest = op.attributes[attr::mode] == "nearest", align = op.attributes[attr::align_corners];
  const std::vector<double>& scale = op.attributes[attr::scale_floats];
  const DType dtype = op.in(0).dtype;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc grad = op.in(0).with_layout(layout), dx = op.out().with_layout(layout);
    const auto from = Planes::of(grad), to = Planes::of(dx);
    if (!from || !to) continue;
    add_candidate(out, "resize_backward", Quality::fast, {grad}, {dx}, [=] {
      BackwardBody body{grad, dx, *from, *to, {}, float_loader(dtype), float_storer(dtype)};
      const int spatial = dx.rank() - 2;
      for (int i = 0; i < 3; ++i) {
        const int axis = i - (3 - spatial);
        body.readers[i] =
            axis < 0
                ? std::vector<std::vector<Reader>>{{{0, 1.0f}}}
                : readers_of(taps_of(to->size[i], from->size[i], scale[size_t(axis)], nearest, align), to->size[i]);
      }
      return body;
    });
  }
}
PL_HOST_KIND("resize_backward", list_backward);

}  // namespace
}  // namespace pl::host
