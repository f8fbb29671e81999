// Kind group_norm: normalisation over groups of channels and all positions; instance_norm with a group a channel.
//
// Two passes over x give the mean and the variance about it (no E[x^2] - mean^2, which cancels), each by channel
// first and then joined over the group, so that every layout is walked in its own order; a third applies them.
#include <cmath>

#include "providers/host/common/split_walk.h"
#include "providers/host/normalise/channels.h"
#include "providers/host/normalise/row_sums.h"

namespace pl::host {
namespace {

PL_VECTORISED void sum_rows(const float* x, const float* center, double* sums, int64_t n, bool square) {
  if (square) {
    for (int64_t i = 0; i < n; ++i) {
      const double d = double(x[i]) - double(center[i]);
      sums[i] += d * d;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) sums[i] += double(x[i]);
  }
}

struct GroupNormBody {
  TensorDesc x, weight, bias;
  int64_t groups;
  double eps;
  SplitWalk split;  // over x and a plain (n, c): positions along, images and channels kept
  ChannelAffine affine;
  LoadRun<float> load;

  // For each image and channel: the sum over positions of x, or of (x - center)^2.
  void sums(const void* data, const float* centers, bool square, double* result) const {
    const bool direct = x.dtype == DType::f32;
    const double work = 0.3 * double(split.along_elements) + 10;
    for (const Nest& nest : split.kept) {
      const int64_t *stride = nest.run().stride, step = stride[0], out_step = stride[1];
      for_each_run(nest, work, [&](const int64_t* offsets, int64_t n) {
        float buffer[kChunk], center[kChunk];
        if (split.side_by_side(nest)) {
          double total[kChunk];
          for (int64_t first = 0; first < n; first += kChunk) {
            const int64_t count = std::min(kChunk, n - first), kept = offsets[1] + first * out_step;
            for (int64_t i = 0; i < count; ++i) {
              total[i] = 0;
              center[i] = square ? centers[kept + i * out_step] : 0;
            }
            for_each_along(split, offsets[0] + first, [&](int64_t from) {
              sum_rows(floats_at(x.dtype, load, data, from, count, buffer), center, total, count, square);
            });
            for (int64_t i = 0; i < count; ++i) result[kept + i * out_step] = total[i];
          }
          return;
        }
        for (int64_t i = 0; i < n; ++i) {
          const int64_t kept = offsets[1] + i * out_step;
          double total = 0;
          for (const Nest& along : split.along) {
            const int64_t along_step = along.run().stride[0];
            walk(along, 0, along.runs(), [&](const int64_t* at, int64_t positions) {
              for (int64_t p = 0; p < positions; p += kChunk) {
                const int64_t count = std::min(kChunk, positions - p);
                const int64_t from = offsets[0] + i * step + at[0] + p * along_step;
                const bool here = direct && along_step == 1;
                if (!here) load(data, from, along_step, count, buffer);
                const float* values = here ? static_cast<const float*>(data) + from : buffer;
                total += square ? sum_of_squares(values, count, centers[kept]) : sum_of(values, count);
              }
            });
          }
          result[kept] = total;
        }
      });
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const int64_t n = x.shape[0], c = x.shape[1], width = c / groups;
    const void* data = input(arguments, 0);
    std::vector<double> sum(size_t(n * c), 0.0);
    std::vector<float> scale(size_t(n * c)), shift(size_t(n * c));
    const double count = double(width * split.along_elements);
    const auto joined = [&](int64_t first) {
      double total = 0;
      for (int64_t i = 0; i < width; ++i) total += sum[size_t(first + i)];
      return total / count;
    };
    sums(data, nullptr, false, sum.data());
    std::vector<double> means(size_t(n * groups));
    for (int64_t g = 0; g < n * groups; ++g) {
      means[size_t(g)] = joined(g * width);
      for (int64_t i = 0; i < width; ++i) shift[size_t(g * width + i)] = float(means[size_t(g)]);
    }
    sums(data, shift.data(), true, sum.data());
    const auto weights = read_vector(weight, input(arguments, 1), c, 1),
               biases = read_vector(bias, input(arguments, 2), c, 0);
    for (int64_t g = 0; g < n * groups; ++g) {
      const double inverse = 1.0 / std::sqrt(joined(g * width) + eps);
      for (int64_t i = 0; i < width; ++i) {
        const size_t at = size_t(g * width + i), channel = at % size_t(c);
        const double factor = inverse * double(weights[channel]);
        scale[at] = float(factor);
        shift[at] = float(double(biases[channel]) - means[size_t(g)] * factor);
      }
    }
    affine.run(data, output(arguments), scale.data(), shift.data());
  }
};

void list_group_norm(const Op& op, CandidateList& out) {
  const auto parameter = [&](size_t i) { return op.has(int(i)) ? dense_plain(op.inputs[i]) : TensorDesc(); };
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    const TensorDesc weight = parameter(1), bias = parameter(2);
    std::vector<TensorDesc> inputs = {x};
    for (size_t i = 1; i < op.inputs.size(); ++i) inputs.push_back(parameter(i));
    add_candidate(
        out, "group_norm", Quality::fast, inputs, {y},
        [=, groups = op.attributes[attr::num_groups], eps = op.attributes[attr::eps], given = op.inputs.size()] {
          std::vector<bool> positions(size_t(x.rank()), true);
          positions[0] = positions[1] = false;
          Dims kept = Dims::filled(x.rank(), 1);
          kept[0] = x.shape[0];
          kept[1] = x.shape[1];
          GroupNormBody body{x,
                             weight,
                             bias,
                             groups,
                             eps,
                             SplitWalk(x.shape, positions, {{x, {}}, {TensorDesc::dense(DType::f32, kept), {}}}),
                             ChannelAffine(x, y, true),
                             float_loader(x.dtype)};
          return [body = std::move(body), given](const KernelArguments& arguments) {
            // Parameters left out at the end have no place in the arguments.
            Buffer* buffers[3] = {};
            std::copy(arguments.inputs, arguments.inputs + given, buffers);
            body({buffers, arguments.outputs, arguments.workspace});
          };
        });
  }
}
PL_HOST_KIND("group_norm", list_group_norm);

}  // namespace
}  // namespace pl::host
