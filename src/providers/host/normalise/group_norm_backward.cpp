// Kind group_norm_backward: in f32 with sums in double.  Channels first a group of an image at a time; where channels lie
// side by side, sums of each part of an image's channels, then what follows from them for groups, then dx.  What images
// and parts add to a sum is added up in one order, which does not depend on the threads.
#include <cmath>

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/normalise/row_sums.h"

namespace pl::host {
namespace {

constexpr double kGroupBackwardNanoseconds = 1.2;  // work of one element on one core
constexpr int kGroupLanes = 16;

// The sums of a channel's gradients and of their products with x - mean.
PL_VECTORISED void channel_sums(const float* x, const float* grad, float mean, int64_t n, double* sums) {
  sums[0] = sums[1] = 0;
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t end = std::min(n, start + kChunk);
    float first[kGroupLanes] = {}, second[kGroupLanes] = {};
    int64_t i = start;
    for (; i + kGroupLanes <= end; i += kGroupLanes)
      for (int l = 0; l < kGroupLanes; ++l) {
        first[l] += grad[i + l];
        second[l] += grad[i + l] * (x[i + l] - mean);
      }
    for (; i < end; ++i) {
      first[0] += grad[i];
      second[0] += grad[i] * (x[i] - mean);
    }
    for (int l = 0; l < kGroupLanes; ++l) {
      sums[0] += double(first[l]);
      sums[1] += double(second[l]);
    }
  }
}

PL_VECTORISED void finish_group(const float* x, const float* grad, float mean, float of_grad, float of_x, float rest,
                                float* dx, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) dx[i] = grad[i] * of_grad - (x[i] - mean) * of_x - rest;
}

PL_VECTORISED void add_positions(const float* x, int64_t rows, int64_t width, double* sums) {
  for (int64_t r = 0; r < rows; ++r, x += width) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < width; ++i) sums[i] += double(x[i]);
  }
}

// Of each channel the sums of (x - mean)^2, of grad and of grad * (x - mean).
PL_VECTORISED void add_moments(const float* x, const float* grad, const float* mean, int64_t rows, int64_t width,
                               double* squares, double* of_grad, double* products) {
  for (int64_t r = 0; r < rows; ++r, x += width, grad += width) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < width; ++i) {
      const double away = double(x[i]) - double(mean[i]), g = double(grad[i]);
      squares[i] += away * away;
      of_grad[i] += g;
      products[i] += g * away;
    }
  }
}

PL_VECTORISED void finish_rows(const float* x, const float* grad, const float* mean, const float* scale,
                               const float* of_away, const float* rest, int64_t rows, int64_t width, float* dx) {
  for (int64_t r = 0; r < rows; ++r, x += width, grad += width, dx += width) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < width; ++i) dx[i] = grad[i] * scale[i] - (x[i] - mean[i]) * of_away[i] - rest[i];
  }
}

// The gradients of the parameters, of what each image adds to them; `padded` channels an image.
void store_weights(const KernelArguments& arguments, int64_t images, int64_t channels, int64_t padded,
                   const std::vector<double>& of_weight, const std::vector<double>& of_bias, StoreRun<float> store) {
  std::vector<float> sums(static_cast<size_t>(channels));
  for (int result : {1, 2}) {
    const std::vector<double>& parts = result == 1 ? of_weight : of_bias;
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < images; ++n) sum += parts[size_t(n * padded + c)];
      sums[size_t(c)] = float(sum);
    }
    store(sums.data(), channels, output(arguments, result), 0, 1);
  }
}

struct GroupNormBackwardBody {
  DType dtype;
  int64_t images, channels, positions, groups;
  double eps;
  bool weighted;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    const int64_t each = channels / groups, length = each * positions;
    std::vector<float> weight(size_t(channels), 1.0f);
    if (weighted) load(input(arguments, 2), 0, 1, channels, weight.data());
    // By image and channel.
    std::vector<double> of_weight(size_t(images * channels)), of_bias(of_weight.size());
    parallel_for(images * groups, kGroupBackwardNanoseconds * double(length), [&](int64_t begin, int64_t end) {
      const bool direct = dtype == DType::f32;
      std::vector<float> space(direct ? 0 : static_cast<size_t>(3 * length));
      const auto read = [&](int index, int64_t from) {
        if (direct) return static_cast<const float*>(input(arguments, index)) + from;
        load(input(arguments, index), from, 1, length, space.data() + index * length);
        return static_cast<const float*>(space.data() + index * length);
      };
      for (int64_t group = begin; group < end; ++group) {
        const int64_t from = group * length, channel = group % groups * each, kept = group * each;
        const float *x = read(0, from), *grad = read(1, from);
        float* dx = direct ? static_cast<float*>(output(arguments, 0)) + from : space.data() + 2 * length;
        const auto mean = length ? float(sum_of(x, length) / double(length)) : 0.0f;
        const double inverse = length ? 1 / std::sqrt(sum_of_squares(x, length, mean) / double(length) + eps) : 0;
        double total = 0, products = 0;
        for (int64_t c = 0; c < each; ++c) {
          double sums[2];
          channel_sums(x + c * positions, grad + c * positions, mean, positions, sums);
          of_bias[size_t(kept + c)] = sums[0];
          of_weight[size_t(kept + c)] = sums[1] * inverse;
          total += sums[0] * double(weight[size_t(channel + c)]);
          products += sums[1] * inverse * double(weight[size_t(channel + c)]);
        }
        const auto of_x = float(inverse * inverse * products / double(length));
        const auto rest = float(inverse * total / double(length));
        for (int64_t c = 0; c < each; ++c)
          finish_group(x + c * positions, grad + c * positions, mean,
                       float(inverse * double(weight[size_t(channel + c)])), of_x, rest, dx + c * positions, positions);
        if (!direct) store(dx, length, output(arguments, 0), from, 1);
      }
    });
    store_weights(arguments, images, channels, channels, of_weight, of_bias, store);
  }
};

// Channels that lie side by side: units of `rows` positions of `width` channels, which are whole images or, in blocks of
// channels, a block of an image.
struct RowsOfChannels {
  DType dtype;
  int64_t images, channels, padded, groups;  // padded: channels with those of the last block's padding
  int64_t rows, width;
  double eps;
  bool weighted;
  LoadRun<float> load;
  StoreRun<float> store;

  static constexpr int64_t kElementsOfPart = 16384;

  int64_t units() const { return images * padded / width; }
  int64_t rows_of_part() const { return std::clamp<int64_t>(kElementsOfPart / width, 1, std::max<int64_t>(1, rows)); }
  int64_t parts() const { return std::max<int64_t>(1, (rows + rows_of_part() - 1) / rows_of_part()); }

  // Calls f(unit, part, first element, rows, a piece of each space) for all parts of all units.
  template <class F>
  void each_part(double nanoseconds, int spaces, F&& f) const {
    parallel_for(units() * parts(), nanoseconds * double(rows_of_part() * width), [&](int64_t begin, int64_t end) {
      const int64_t most = rows_of_part() * width;
      std::vector<float> space(dtype == DType::f32 ? 0 : static_cast<size_t>(spaces * most));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t unit = task / parts(), part = task % parts(), first = part * rows_of_part();
        f(unit, part, (unit * rows + first) * width, std::min(rows_of_part(), rows - first), space.data());
      }
    });
  }
  const float* read(const KernelArguments& arguments, int index, int64_t from, int64_t count, float* space) const {
    if (dtype == DType::f32) return static_cast<const float*>(input(arguments, index)) + from;
    load(input(arguments, index), from, 1, count, space);
    return space;
  }

  void operator()(const KernelArguments& arguments) const {
    const int64_t each = channels / groups, all = images * padded;
    const double count = double(std::max<int64_t>(1, each * rows));
    std::vector<float> weight(size_t(channels), 1.0f);
    if (weighted) load(input(arguments, 2), 0, 1, channels, weight.data());
    // By part, then by image and channel.
    std::vector<double> sums(size_t(parts() * all)), squares(sums.size()), of_bias(sums.size()), of_weight(sums.size());
    each_part(0.3, 1, [&](int64_t unit, int64_t part, int64_t from, int64_t n, float* space) {
      add_positions(read(arguments, 0, from, n * width, space), n, width, sums.data() + part * all + unit * width);
    });
    std::vector<float> mean(static_cast<size_t>(all)), scale(mean.size()), of_away(mean.size()), rest(mean.size());
    each_group([&](int64_t first, int64_t) {
      double sum = 0;
      for (int64_t c = first; c < first + each; ++c) sum += joined(sums, c);
      std::fill_n(mean.begin() + first, each, float(sum / count));
    });
    each_part(0.6, 2, [&](int64_t unit, int64_t part, int64_t from, int64_t n, float* space) {
      const float* x = read(arguments, 0, from, n * width, space);
      const float* grad = read(arguments, 1, from, n * width, space + rows_of_part() * width);
      const int64_t at = part * all + unit * width;
      add_moments(x, grad, mean.data() + unit * width, n, width, squares.data() + at, of_bias.data() + at,
                  of_weight.data() + at);
    });
    each_group([&](int64_t first, int64_t channel) {
      double square = 0, total = 0, products = 0;
      for (int64_t c = first; c < first + each; ++c) square += joined(squares, c);
      const double inverse = 1 / std::sqrt(square / count + eps);
      for (int64_t i = 0; i < each; ++i) {
        const auto c = size_t(first + i);
        const double factor = weight[size_t(channel + i)];
        of_bias[c] = joined(of_bias, first + i);
        of_weight[c] = joined(of_weight, first + i) * inverse;
        total += of_bias[c] * factor;
        products += of_weight[c] * factor;
        scale[c] = float(inverse * factor);
      }
      std::fill_n(of_away.begin() + first, each, float(inverse * inverse * products / count));
      std::fill_n(rest.begin() + first, each, float(inverse * total / count));
    });
    each_part(0.4, 3, [&](int64_t unit, int64_t, int64_t from, int64_t n, float* space) {
      const int64_t most = rows_of_part() * width, at = unit * width;
      const float *x = read(arguments, 0, from, n * width, space),
                  *grad = read(arguments, 1, from, n * width, space + most);
      float* dx = dtype == DType::f32 ? static_cast<float*>(output(arguments, 0)) + from : space + 2 * most;
      finish_rows(x, grad, mean.data() + at, scale.data() + at, of_away.data() + at, rest.data() + at, n, width, dx);
      if (dtype != DType::f32) store(dx, n * width, output(arguments, 0), from, 1);
    });
    store_weights(arguments, images, channels, padded, of_weight, of_bias, store);
  }

 private:
  // Calls f(its first channel among all images', its first channel) for each group.
  template <class F>
  void each_group(F&& f) const {
    const int64_t each = channels / groups;
    for (int64_t n = 0; n < images; ++n)
      for (int64_t g = 0; g < groups; ++g) f(n * padded + g * each, g * each);
  }
  double joined(const std::vector<double>& sums, int64_t channel) const {
    double sum = 0;
    for (int64_t part = 0; part < parts(); ++part) sum += sums[size_t(part * images * padded + channel)];
    return sum;
  }
};

void list_group_norm_backward(const Op& op, CandidateList& out) {
  const Dims& shape = op.in(0).shape;
  const int64_t groups = op.attributes[attr::num_groups];
  const double eps = op.attributes[attr::eps];
  const TensorDesc parameter = dense_plain(op.out(1));
  const LoadRun<float> load = float_loader(op.in(0).dtype);
  const StoreRun<float> store = float_storer(op.in(0).dtype);
  int64_t positions = 1;
  for (int d = 2; d < shape.size(); ++d) positions *= shape[d];
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout);
    std::vector<TensorDesc> inputs{x, x};
    if (op.inputs.size() > 2) inputs.push_back(op.has(2) ? parameter : TensorDesc());
    const std::vector<TensorDesc> outputs{x, parameter, parameter};
    const DType dtype = x.dtype;
    const std::string name = "group_norm_backward";
    if (layout.is_plain()) {
      const GroupNormBackwardBody body{dtype, shape[0], shape[1], positions, groups, eps, op.has(2), load, store};
      add_candidate(out, name, Quality::fair, inputs, outputs, [body] { return body; });
    } else if (layout.is_channels_last() || layout.channel_block() > 0) {
      const int64_t width = layout.is_channels_last() ? shape[1] : layout.block(0).size;
      const RowsOfChannels body{dtype,     shape[0],  shape[1], (shape[1] + width - 1) / width * width,
                                groups,    positions, width,    eps,
                                op.has(2), load,      store};
      add_candidate(out, name, Quality::fair, inputs, outputs, [body] { return body; });
    }
  }
}
PL_HOST_KIND("group_norm_backward", list_group_norm_backward);

}  // namespace
}  // namespace pl::host
