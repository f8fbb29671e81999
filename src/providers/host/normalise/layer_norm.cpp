// Kind layer_norm (layer_norm, rms_norm, l2_normalize): normalisation over the last dimensions, row by row, or many rows
// side by side where the neighbours of an element belong to other rows; statistics in two passes, without the mean in
// one, in double between runs.
#include <cmath>

#include "providers/host/common/independent.h"
#include "providers/host/common/split_walk.h"
#include "providers/host/normalise/channels.h"
#include "providers/host/normalise/row_sums.h"

namespace pl::host {
namespace {

constexpr double kLayerNanoseconds = 0.8;  // work of one element on one core

PL_VECTORISED void apply(const float* x, float* y, const float* weight, const float* bias, float mean, float inverse,
                         int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
}

// Steps over rows side by side.
PL_VECTORISED void add_across(const float* x, float* sums, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i];
}
PL_VECTORISED void add_squares_across(const float* x, const float* mean, float* sums, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) sums[i] += (x[i] - mean[i]) * (x[i] - mean[i]);
}
PL_VECTORISED void apply_across(const float* x, float* y, const float* mean, const float* inverse, float weight,
                                float bias, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean[i]) * inverse[i] * weight + bias;
}

struct LayerNormBody {
  DType dtype;
  bool centred;  // about the mean
  bool limited;  // by the length, of eps at least
  double eps;
  size_t given;  // inputs
  TensorDesc weight, bias;
  SplitWalk split;  // over x and y, which lie alike, and a plain parameter
  LoadRun<float> load;
  StoreRun<float> store;
  PaddingZeroer zeroer;

  // In the order in which rows are walked.
  std::vector<float> parameter(const TensorDesc& desc, const void* data, float fallback) const {
    std::vector<float> values(size_t(split.along_elements), fallback);
    if (desc.present) gather_row(split, 2, load, data, 0, values.data());
    return values;
  }

  float inverse_of(double squares) const {
    return float(
        1.0 / (limited ? std::max(std::sqrt(squares), eps) : std::sqrt(squares / double(split.along_elements) + eps)));
  }

  // Adds up what add(values, sums) adds for each element along, in double between runs of elements.
  template <class Values, class Add>
  void sum_across(int64_t first, int64_t n, Values&& values_at, double* totals, Add&& add) const {
    constexpr int kRun = 64;  // elements whose sum is kept in f32
    float sums[kChunk];
    int summed = 0;
    const auto flush = [&] {
      for (int64_t i = 0; i < n; ++i) totals[i] += double(sums[i]);
      std::fill(sums, sums + n, 0.0f);
      summed = 0;
    };
    std::fill(sums, sums + n, 0.0f);
    for_each_along(split, first, [&](int64_t offset) {
      add(values_at(offset), sums);
      if (++summed == kRun) flush();
    });
    flush();
  }

  void side_by_side(const void* x, void* y, const float* weights, const float* biases, int64_t first, int64_t n) const {
    float values[kChunk], mean[kChunk] = {}, inverse[kChunk];
    const bool direct = dtype == DType::f32;
    const auto values_at = [&](int64_t offset) { return floats_at(dtype, load, x, offset, n, values); };
    double totals[kChunk] = {};
    if (centred) {
      sum_across(first, n, values_at, totals, [&](const float* from, float* sums) { add_across(from, sums, n); });
      for (int64_t i = 0; i < n; ++i) mean[i] = float(totals[i] / double(split.along_elements));
      std::fill(totals, totals + n, 0.0);
    }
    sum_across(first, n, values_at, totals,
               [&](const float* from, float* sums) { add_squares_across(from, mean, sums, n); });
    for (int64_t i = 0; i < n; ++i) inverse[i] = inverse_of(totals[i]);
    int64_t at = 0;
    for_each_along(split, first, [&](int64_t offset) {
      float* target = direct ? static_cast<float*>(y) + offset : values;
      apply_across(values_at(offset), target, mean, inverse, weights[at], biases[at], n);
      if (!direct) store(values, n, y, offset, 1);
      ++at;
    });
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    const int64_t length = split.along_elements;
    const auto weights = parameter(weight, given > 1 ? input(arguments, 1) : nullptr, 1);
    const auto biases = parameter(bias, given > 2 ? input(arguments, 2) : nullptr, 0);
    const bool direct = dtype == DType::f32 && split.contiguous(0);
    for (const Nest& nest : split.kept) {
      const int64_t step = nest.run().stride[0];
      for_each_run(nest, kLayerNanoseconds * double(length) + 10, [&](const int64_t* offsets, int64_t n) {
        if (split.side_by_side(nest)) {
          for (int64_t i = 0; i < n; i += kChunk)
            side_by_side(x, y, weights.data(), biases.data(), offsets[0] + i, std::min(kChunk, n - i));
          return;
        }
        std::vector<float> row(direct ? 0 : size_t(length));
        for (int64_t i = 0; i < n; ++i) {
          const int64_t first = offsets[0] + i * step;
          const float* from = row.data();
          float* to = row.data();
          if (direct) {
            const int64_t at = first + split.along[0].base[0];
            from = static_cast<const float*>(x) + at;
            to = static_cast<float*>(y) + at;
          } else {
            gather_row(split, 0, load, x, first, row.data());
          }
          const float mean = centred ? float(sum_of(from, length) / double(length)) : 0.0f;
          const double squares = sum_of_squares(from, length, mean);
          const float inverse = inverse_of(squares);
          apply(from, to, weights.data(), biases.data(), mean, inverse, length);
          if (!direct) scatter_row(split, 1, store, y, first, row.data());
        }
      });
    }
    zeroer.run(y);
  }
};

void list_layer_norm(const Op& op, CandidateList& out) {
  const auto parameter = [&](size_t i) { return op.has(int(i)) ? dense_plain(op.inputs[i]) : TensorDesc(); };
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    const TensorDesc weight = parameter(1), bias = parameter(2);
    std::vector<TensorDesc> inputs = {x};
    for (size_t i = 1; i < op.inputs.size(); ++i) inputs.push_back(parameter(i));
    add_candidate(out, "layer_norm", Quality::fast, inputs, {y},
                  [=, centred = op.attributes[attr::centred], limited = op.attributes[attr::limited],
                   eps = op.attributes[attr::eps], normalized = op.attributes[attr::normalized_shape]] {
                    std::vector<bool> along(size_t(x.rank()), false);
                    std::fill(along.end() - int64_t(normalized.size()), along.end(), true);
                    const TensorDesc row = with_rank(TensorDesc::dense(x.dtype, Dims(normalized)), x.rank());
                    return LayerNormBody{x.dtype,
                                         centred,
                                         limited,
                                         eps,
                                         inputs.size(),
                                         weight,
                                         bias,
                                         SplitWalk(x.shape, along, {{x, {}}, {y, {}}, {row, {}}}),
                                         float_loader(x.dtype),
                                         float_storer(x.dtype),
                                         PaddingZeroer(y)};
                  });
    out.candidates.back().efficiency = 0.5;  // 1.4 times oneDNN's time, where that has the op (rows of 768)
  }
}
PL_HOST_KIND("layer_norm", list_layer_norm);

}  // namespace
}  // namespace pl::host
