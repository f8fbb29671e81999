// Kind layer_norm_backward: rows of neighbours, in f32, with sums over a row in double.  The gradients of the
// parameters are added up for a fixed number of parts of the rows, then over the parts, so that they do not depend on
// the threads.
#include <cmath>

#include "providers/host/common/host.h"
#include "providers/host/normalise/row_sums.h"

namespace pl::host {
namespace {

constexpr double kLayerBackwardNanoseconds = 1.2;  // work of one element on one core
constexpr int kLayerLanes = 16;
constexpr int64_t kMostLayerParts = 16;

// h = (x - mean), its squares added up.
PL_VECTORISED double centre(const float* x, float* h, float mean, int64_t n) {
  double total = 0;
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t end = std::min(n, start + kChunk);
    float lanes[kLayerLanes] = {};
    int64_t i = start;
    for (; i + kLayerLanes <= end; i += kLayerLanes)
      for (int l = 0; l < kLayerLanes; ++l) {
        h[i + l] = x[i + l] - mean;
        lanes[l] += h[i + l] * h[i + l];
      }
    for (; i < end; ++i) {
      h[i] = x[i] - mean;
      lanes[0] += h[i] * h[i];
    }
    for (int l = 0; l < kLayerLanes; ++l) total += double(lanes[l]);
  }
  return total;
}

// h becomes h * inverse; what a row adds to the gradients of weight and bias; returns the sums of g and of g * h with
// g = grad * weight.
PL_VECTORISED void accumulate(const float* grad, float* h, const float* weight, float inverse, float* of_weight,
                              float* of_bias, int64_t n, double* sums) {
  sums[0] = sums[1] = 0;
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t end = std::min(n, start + kChunk);
    float first[kLayerLanes] = {}, second[kLayerLanes] = {};
    const auto one = [&](int64_t i, int l) {
      h[i] *= inverse;
      of_weight[i] += grad[i] * h[i];
      of_bias[i] += grad[i];
      const float g = grad[i] * weight[i];
      first[l] += g;
      second[l] += g * h[i];
    };
    int64_t i = start;
    for (; i + kLayerLanes <= end; i += kLayerLanes)
      for (int l = 0; l < kLayerLanes; ++l) one(i + l, l);
    for (; i < end; ++i) one(i, 0);
    for (int l = 0; l < kLayerLanes; ++l) {
      sums[0] += double(first[l]);
      sums[1] += double(second[l]);
    }
  }
}

PL_VECTORISED void finish_layer(const float* grad, const float* h, const float* weight, float inverse, float mean_g,
                                float mean_gh, float* dx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = inverse * (grad[i] * weight[i] - mean_g - h[i] * mean_gh);
}

struct LayerNormBackwardBody {
  DType dtype;
  bool centred;
  double eps;
  int64_t rows, length;
  bool weighted;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    const void *x = input(arguments, 0), *grad = input(arguments, 1);
    void* dx = output(arguments, 0);
    std::vector<float> weight(size_t(length), 1.0f);
    if (weighted) load(input(arguments, 2), 0, 1, length, weight.data());
    const int64_t parts = std::max<int64_t>(1, std::min(kMostLayerParts, rows));
    std::vector<float> sums(size_t(parts * 2 * length), 0.0f);
    parallel_for(parts, kLayerBackwardNanoseconds * double(length) * double(rows) / double(parts),
                 [&](int64_t begin, int64_t end) {
                   std::vector<float> from(weight.size()), g(weight.size()), h(weight.size());
                   for (int64_t part = begin; part < end; ++part) {
                     float* of_weight = sums.data() + part * 2 * length;
                     for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
                       load(x, row * length, 1, length, from.data());
                       load(grad, row * length, 1, length, g.data());
                       const float mean = centred ? float(sum_of(from.data(), length) / double(length)) : 0.0f;
                       const double squares = centre(from.data(), h.data(), mean, length);
                       const float inverse = float(1 / std::sqrt(squares / double(length) + eps));
                       double totals[2];
                       accumulate(g.data(), h.data(), weight.data(), inverse, of_weight, of_weight + length, length,
                                  totals);
                       finish_layer(g.data(), h.data(), weight.data(), inverse,
                                    centred ? float(totals[0] / double(length)) : 0.0f,
                                    float(totals[1] / double(length)), from.data(), length);
                       store(from.data(), length, dx, row * length, 1);
                     }
                   }
                 });
    for (int64_t part = 1; part < parts; ++part)
      for (int64_t i = 0; i < 2 * length; ++i) sums[size_t(i)] += sums[size_t(part * 2 * length + i)];
    store(sums.data(), length, output(arguments, 1), 0, 1);
    if (centred) store(sums.data() + length, length, output(arguments, 2), 0, 1);
  }
};

void list_layer_norm_backward(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0)), parameter = dense_plain(op.out(1));
  LayerNormBackwardBody body{x.dtype,   op.attributes[attr::centred], op.attributes[attr::eps], 0, parameter.elements(),
                             op.has(2), float_loader(x.dtype),        float_storer(x.dtype)};
  body.rows = body.length ? x.elements() / body.length : 0;
  std::vector<TensorDesc> inputs{x, x}, outputs{x, parameter};
  if (op.inputs.size() > 2) inputs.push_back(op.has(2) ? parameter : TensorDesc());
  if (body.centred) outputs.push_back(parameter);
  add_candidate(out, "layer_norm_backward", Quality::fair, inputs, outputs, [body] { return body; });
}
PL_HOST_KIND("layer_norm_backward", list_layer_norm_backward);

}  // namespace
}  // namespace pl::host
