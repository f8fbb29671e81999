// Kinds batch_norm_training and batch_norm_backward in plain layouts: a channel at a time, plane by plane of its images.
//
// Sums of a plane are taken in f32 lanes, those of squares about the channel's mean, and joined in double in the order
// of images, so that results do not depend on the threads.
#include "providers/host/normalise/batch_norm_planes.h"

#include <cmath>

#include "ops/post_ops.h"
#include "providers/host/common/independent.h"
#include "providers/host/normalise/batch_norm_body.h"
#include "providers/host/normalise/row_sums.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/slope.h"

namespace pl::host {
namespace {

constexpr double kPlanesNanoseconds = 0.5;  // work of one element on one core

PL_VECTORISED void scale_plane(const float* x, int64_t n, float mean, float scale, float bias, float* y) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + bias;
}
// dx = by_grad * g - by_value * (x - mean) - constant
PL_VECTORISED void gradient_plane(const float* x, const float* g, int64_t n, float mean, float by_grad, float by_value,
                                  float constant, float* dx) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) dx[i] = by_grad * g[i] - by_value * (x[i] - mean) - constant;
}

struct ChannelPlanes : BatchNormBody {
  int64_t images, positions;

  ChannelPlanes(const Op& op) : BatchNormBody(op), images(op.in(0).shape[0]), positions(1) {
    for (int d = 2; d < op.in(0).rank(); ++d) positions *= op.in(0).shape[d];
  }

  double count() const { return double(std::max<int64_t>(1, images * positions)); }

  template <class F>
  void each_channel(F&& f) const {
    parallel_for(channels, count() * kPlanesNanoseconds, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) f(c);
    });
  }
  // Calls f(first element) for the planes of a channel.
  template <class F>
  void each_plane(int64_t channel, F&& f) const {
    for (int64_t n = 0; n < images; ++n) f((n * channels + channel) * positions);
  }
};

struct TrainingPlanesBody : ChannelPlanes {
  AppliedPostOps post_ops;

  TrainingPlanesBody(const Op& op) : ChannelPlanes(op), post_ops(op) {}

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    const std::vector<float> weight = parameter(arguments, 1), bias = parameter(arguments, 2);
    std::vector<float> means(weight.size()), variances(weight.size());
    each_channel([&](int64_t c) {
      thread_local std::vector<float> space, made, operand;
      double sum = 0, squares = 0;
      each_plane(c, [&](int64_t at) { sum += sum_of(read(x, at, positions, space), positions); });
      const auto mean = float(sum / count());
      each_plane(c, [&](int64_t at) { squares += sum_of_squares(read(x, at, positions, space), positions, mean); });
      const double rounded = sum / count() - double(mean);  // what the squares are about is not quite the mean
      // NaN stays what it is.
      const double variance = std::max(squares / count() - rounded * rounded, 0.0);
      means[size_t(c)] = mean;
      variances[size_t(c)] = float(variance);
      const auto scale = float(double(weight[size_t(c)]) / std::sqrt(variance + eps));
      each_plane(c, [&](int64_t at) {
        write(output(arguments, 0), at, positions, made, [&](float* y) {
          scale_plane(read(x, at, positions, space), positions, mean, scale, bias[size_t(c)], y);
          post_ops.apply(y, positions, [&](int i) { return read(input(arguments, i), at, positions, operand); });
        });
      });
    });
    write_parameter(means, arguments, 1);
    write_parameter(variances, arguments, 2);
  }
};

struct BackwardPlanesBody : ChannelPlanes {
  bool inverted;
  std::optional<Slope> slope;  // of a function that was applied to the result

  BackwardPlanesBody(const Op& op) : ChannelPlanes(op), inverted(op.attributes[attr::inverted]) {
    if (const std::optional<PostOp> function = activation_of(op)) slope = Slope(*function);
  }

  void operator()(const KernelArguments& arguments) const {
    const void *x = input(arguments, 0), *grad = input(arguments, 1);
    const std::vector<float> means = parameter(arguments, 2), variances = parameter(arguments, 3),
                             weights = parameter(arguments, 4),
                             bias = slope ? parameter(arguments, 5) : std::vector<float>();
    std::vector<float> of_weight(weights.size()), of_bias(weights.size());
    each_channel([&](int64_t c) {
      thread_local std::vector<float> space, more, results, made;
      const auto k = size_t(c);
      const float mean = means[k];
      const double inverse = inverted ? double(variances[k]) : 1 / std::sqrt(double(variances[k]) + eps);
      const double scale = double(weights[k]) * inverse;
      const auto gradients = [&](int64_t at, const float* values) {
        const float* g = read(grad, at, positions, more);
        if (!slope) return g;
        results.resize(size_t(positions));
        more.resize(size_t(positions));
        scale_plane(values, positions, mean, float(scale), bias[k], results.data());
        slope->run(results.data(), g, positions, more.data());
        return static_cast<const float*>(more.data());
      };
      double sum = 0, products = 0;
      each_plane(c, [&](int64_t at) {
        const float *values = read(x, at, positions, space), *g = gradients(at, values);
        sum += sum_of(g, positions);
        products += sum_of_products(g, values, positions, mean);
      });
      products *= inverse;
      of_bias[k] = float(sum);
      of_weight[k] = float(products);
      each_plane(c, [&](int64_t at) {
        const float *values = read(x, at, positions, space), *g = gradients(at, values);
        write(output(arguments, 0), at, positions, made, [&](float* dx) {
          gradient_plane(values, g, positions, mean, float(scale), float(scale * inverse * products / count()),
                         float(scale * sum / count()), dx);
        });
      });
    });
    write_parameter(of_weight, arguments, 1);
    write_parameter(of_bias, arguments, 2);
  }
};

template <class Body>
void list_planes(const Op& op, CandidateList& out) {
  if (op.in(0).rank() < 3) return;  // a position an image: rows, which are channels last
  std::vector<TensorDesc> inputs, outputs;
  for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
  for (const TensorDesc& desc : op.outputs) outputs.push_back(dense_plain(desc));
  const Body body(op);
  add_candidate(out, "batch_norm_planes", Quality::fast, inputs, outputs, [body] { return body; });
}

}  // namespace

void list_training_planes(const Op& op, CandidateList& out) { list_planes<TrainingPlanesBody>(op, out); }
void list_backward_planes(const Op& op, CandidateList& out) { list_planes<BackwardPlanesBody>(op, out); }

}  // namespace pl::host
