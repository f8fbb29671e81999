// Kinds batch_norm_training and batch_norm_backward in any layout: in double, two passes over each channel.  Channels
// last and plain layouts have kernels of their own (batch_norm_rows.cpp, batch_norm_planes.cpp).
#include <cmath>

#include "ops/post_ops.h"
#include "providers/host/common/reference.h"
#include "providers/host/normalise/batch_norm_planes.h"
#include "providers/host/normalise/batch_norm_rows.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/slope.h"

namespace pl::host {
namespace {

constexpr double kBackwardNanoseconds = 4;  // work of one element on one core

// An activation as images of channels of positions.
struct Extents {
  int64_t images, channels, positions;
  explicit Extents(const TensorDesc& x) : images(x.shape[0]), channels(x.shape[1]), positions(1) {
    for (int i = 2; i < x.rank(); ++i) positions *= x.shape[i];
  }
  int64_t count() const { return images * positions; }
  // Calls f(first element) for each run of a channel's positions.
  template <class F>
  void each_image(int64_t channel, F&& f) const {
    for (int64_t n = 0; n < images; ++n) f((n * channels + channel) * positions);
  }
};

struct TrainingBody {
  std::vector<TensorDesc> inputs;  // x, weight, bias, operands of post-ops
  TensorDesc statistic;
  double eps;
  AppliedPostOps post_ops;

  void operator()(const KernelArguments& arguments) const {
    const TensorDesc &x = inputs[0], &scale = inputs[1], &shift = inputs[2];
    std::vector<std::vector<double>> operands;
    for (size_t i = 3; i < inputs.size(); ++i)
      operands.push_back(PlainDoubles::read(inputs[i], input_data(inputs, arguments, i)));
    std::vector<double> values = PlainDoubles::read(x, input(arguments, 0));
    const std::vector<double> weight = PlainDoubles::read(scale, input(arguments, 1));
    const std::vector<double> bias = PlainDoubles::read(shift, input(arguments, 2));
    const Extents extents(x);
    std::vector<double> means(weight.size()), variances(weight.size());
    parallel_for(extents.channels, kBackwardNanoseconds * double(extents.count()), [&](int64_t first, int64_t end) {
      for (int64_t c = first; c < end; ++c) {
        const size_t k = size_t(c);
        double sum = 0, squares = 0;
        extents.each_image(c, [&](int64_t at) {
          for (int64_t p = 0; p < extents.positions; ++p) sum += values[size_t(at + p)];
        });
        const double mean = sum / double(extents.count());
        extents.each_image(c, [&](int64_t at) {
          for (int64_t p = 0; p < extents.positions; ++p)
            squares += (values[size_t(at + p)] - mean) * (values[size_t(at + p)] - mean);
        });
        means[k] = mean;
        variances[k] = squares / double(extents.count());
        const double factor = weight[k] / std::sqrt(variances[k] + eps);
        extents.each_image(c, [&](int64_t at) {
          for (int64_t p = 0; p < extents.positions; ++p)
            values[size_t(at + p)] = (values[size_t(at + p)] - mean) * factor + bias[k];
          post_ops.apply(values.data() + at, extents.positions,
                         [&](int input) { return operands[size_t(input) - 3].data() + at; });
        });
      }
    });
    PlainDoubles::write(x, output(arguments, 0), values);
    PlainDoubles::write(statistic, output(arguments, 1), means);
    PlainDoubles::write(statistic, output(arguments, 2), variances);
  }
};

void list_training(const Op& op, CandidateList& out) {
  list_training_rows(op, out);
  list_training_planes(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    TrainingBody body{{}, dense_plain(op.out(1)), op.attributes[attr::eps], AppliedPostOps(op)};
    for (size_t i = 0; i < op.inputs.size(); ++i)
      body.inputs.push_back(i == 0 || i > 2 ? dense_as(op.inputs[i], layout) : dense_plain(op.inputs[i]));
    add_candidate(out, "batch_norm_training", Quality::reference, body.inputs,
                  {body.inputs[0], body.statistic, body.statistic}, [body] { return body; });
  }
}
PL_HOST_KIND("batch_norm_training", list_training);

struct BatchBody {
  TensorDesc x, parameter, statistic;
  double eps;
  std::optional<Slope> slope;
  bool inverted;

  void operator()(const KernelArguments& arguments) const {
    const std::vector<double> values = PlainDoubles::read(x, input(arguments, 0));
    std::vector<double> grad = PlainDoubles::read(x, input(arguments, 1));
    const std::vector<double> mean = PlainDoubles::read(statistic, input(arguments, 2));
    const std::vector<double> variance = PlainDoubles::read(statistic, input(arguments, 3));
    const std::vector<double> weight = PlainDoubles::read(parameter, input(arguments, 4));
    const std::vector<double> bias = slope ? PlainDoubles::read(parameter, input(arguments, 5)) : weight;
    const Extents extents(x);
    std::vector<double> of_weight(weight.size()), of_bias(weight.size());
    parallel_for(extents.channels, kBackwardNanoseconds * double(extents.count()), [&](int64_t first, int64_t end) {
      for (int64_t c = first; c < end; ++c) {
        const size_t k = size_t(c);
        const double inverse = inverted ? variance[k] : 1 / std::sqrt(variance[k] + eps);
        const double count = double(extents.count());
        double sum = 0, products = 0;
        if (slope) {
          std::vector<float> y(static_cast<size_t>(extents.positions)), given(y.size());
          extents.each_image(c, [&](int64_t at) {
            for (size_t p = 0; p < y.size(); ++p) {
              y[p] = float((values[size_t(at) + p] - mean[k]) * inverse * weight[k] + bias[k]);
              given[p] = float(grad[size_t(at) + p]);
            }
            slope->run(y.data(), given.data(), extents.positions, given.data());
            std::copy(given.begin(), given.end(), grad.begin() + at);
          });
        }
        extents.each_image(c, [&](int64_t at) {
          for (size_t i = size_t(at); i < size_t(at + extents.positions); ++i) {
            sum += grad[i];
            products += grad[i] * (values[i] - mean[k]) * inverse;
          }
        });
        of_bias[k] = sum;
        of_weight[k] = products;
        extents.each_image(c, [&](int64_t at) {
          for (size_t i = size_t(at); i < size_t(at + extents.positions); ++i)
            grad[i] =
                weight[k] * inverse * (grad[i] - sum / count - (values[i] - mean[k]) * inverse * products / count);
        });
      }
    });
    PlainDoubles::write(x, output(arguments, 0), grad);
    PlainDoubles::write(parameter, output(arguments, 1), of_weight);
    PlainDoubles::write(parameter, output(arguments, 2), of_bias);
  }
};

void list_batch(const Op& op, CandidateList& out) {
  list_backward_rows(op, out);
  list_backward_planes(op, out);
  const std::optional<PostOp> function = activation_of(op);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const BatchBody body{op.in(0).with_layout(layout),
                         dense_plain(op.in(4)),
                         dense_plain(op.in(2)),
                         op.attributes[attr::eps],
                         function ? std::optional(Slope(*function)) : std::nullopt,
                         op.attributes[attr::inverted]};
    std::vector<TensorDesc> inputs{body.x, body.x, body.statistic, body.statistic, body.parameter};
    if (op.inputs.size() > 5) inputs.push_back(op.has(5) ? body.parameter : TensorDesc());
    add_candidate(out, "batch_norm_backward", Quality::reference, inputs, {body.x, body.parameter, body.parameter},
                  [body] { return body; });
  }
}
PL_HOST_KIND("batch_norm_backward", list_batch);

}  // namespace
}  // namespace pl::host
