// Kind group_norm_backward: a group of an image at a time, in f32 with sums in double.  What the images add to the
// gradients of the parameters is added up afterwards in one order, so that it does not depend on the threads.
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
        const auto mean = float(sum_of(x, length) / double(length));
        const double inverse = 1 / std::sqrt(sum_of_squares(x, length, mean) / double(length) + eps);
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
    std::vector<float> sums(static_cast<size_t>(channels));
    for (int result : {1, 2}) {
      const std::vector<double>& parts = result == 1 ? of_weight : of_bias;
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int64_t n = 0; n < images; ++n) sum += parts[size_t(n * channels + c)];
        sums[size_t(c)] = float(sum);
      }
      store(sums.data(), channels, output(arguments, result), 0, 1);
    }
  }
};

void list_group_norm_backward(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0)), parameter = dense_plain(op.out(1));
  GroupNormBackwardBody body{x.dtype,
                             x.shape[0],
                             x.shape[1],
                             1,
                             op.attributes[attr::num_groups],
                             op.attributes[attr::eps],
                             op.has(2),
                             float_loader(x.dtype),
                             float_storer(x.dtype)};
  for (int d = 2; d < x.rank(); ++d) body.positions *= x.shape[d];
  std::vector<TensorDesc> inputs{x, x};
  if (op.inputs.size() > 2) inputs.push_back(op.has(2) ? parameter : TensorDesc());
  add_candidate(out, "group_norm_backward", Quality::fair, inputs, {x, parameter, parameter}, [body] { return body; });
}
PL_HOST_KIND("group_norm_backward", list_group_norm_backward);

}  // namespace
}  // namespace pl::host
