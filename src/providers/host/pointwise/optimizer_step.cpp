// Kind optimizer_step: sgd_step, adam_step and adamw_step, a chunk of all tensors at a time.  With a grad_scale of 0
// the chunks are written as they were read.
#include <cmath>

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"

namespace pl::host {
namespace {

// Weight, gradient, and what an optimizer keeps: of each a chunk is read before any is written.
constexpr uint32_t kInPlace = 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4;

// `share`, of what is new: one less the other factor, in double. In float it would be off by 1.3e-5 where that is 0.999.
struct Sgd {
  float momentum, share, decay;
  bool nesterov;
};

PL_VECTORISED void sgd_run(const Sgd& s, float rate, float* w, const float* grad, float* v, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] + s.decay * w[i];
    v[i] = s.momentum * v[i] + s.share * g;
    w[i] -= rate * (s.nesterov ? g + s.momentum * v[i] : v[i]);
  }
}
PL_VECTORISED void sgd_run(const Sgd& s, float rate, float* w, const float* grad, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) w[i] -= rate * (grad[i] + s.decay * w[i]);
}

struct Adam {
  float beta1, share1, beta2, share2, eps, decay;
  bool decoupled;
};

// `step_size`: the rate by the correction of the mean; `root`: the root of the correction of the squares.
PL_VECTORISED void adam_run(const Adam& a, float rate, float step_size, float root, float* w, const float* grad,
                            float* m, float* v, int64_t n) {
  const float kept = a.decoupled ? 1.0f - rate * a.decay : 1.0f, decay = a.decoupled ? 0.0f : a.decay;
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] + decay * w[i];
    m[i] = a.beta1 * m[i] + a.share1 * g;
    v[i] = a.beta2 * v[i] + a.share2 * g * g;
    w[i] = kept * w[i] - step_size * m[i] / (__builtin_sqrtf(v[i]) / root + a.eps);
  }
}

PL_VECTORISED void multiply_run(float* values, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) values[i] *= factor;
}

struct Step {
  int64_t count;
  LoadRun<float> load, load_gradient;
  StoreRun<float> store;
  int factor;  // the input that it is; -1: none

  // Calls f(w, g, first, second, n) on chunks: weight and gradient, and up to two more tensors, the inputs numbered
  // `more` and after it; what f leaves in them, but the gradient, goes to the outputs.
  template <class F>
  void each_chunk(const KernelArguments& arguments, int first, int more, F&& f) const {
    const float by = factor < 0 ? 1.0f : *static_cast<const float*>(input(arguments, factor));
    parallel_for((count + kChunk - 1) / kChunk, 1.5 * kChunk, [&](int64_t begin, int64_t end) {
      float values[4][kChunk];
      for (int64_t at = begin * kChunk; at < std::min(end * kChunk, count); at += kChunk) {
        const int64_t n = std::min(kChunk, count - at);
        load(input(arguments, 0), at, 1, n, values[0]);
        load_gradient(input(arguments, 1), at, 1, n, values[1]);
        for (int k = 0; k < more; ++k) load(input(arguments, first + k), at, 1, n, values[2 + k]);
        if (by != 1.0f) multiply_run(values[1], by, n);
        if (by != 0.0f) f(values[0], values[1], values[2], values[3], n);
        store(values[0], n, output(arguments, 0), at, 1);
        for (int k = 0; k < more; ++k) store(values[2 + k], n, output(arguments, 1 + k), at, 1);
      }
    });
  }
};

struct SgdBody {
  Step step;
  Sgd sgd;
  bool with_velocity;

  void operator()(const KernelArguments& arguments) const {
    const float rate = *static_cast<const float*>(input(arguments, 2));
    step.each_chunk(arguments, 3, with_velocity ? 1 : 0, [&](float* w, const float* g, float* v, float*, int64_t n) {
      if (with_velocity)
        sgd_run(sgd, rate, w, g, v, n);
      else
        sgd_run(sgd, rate, w, g, n);
    });
  }
};

struct AdamBody {
  Step step;
  Adam adam;
  double beta1, beta2;

  void operator()(const KernelArguments& arguments) const {
    const float rate = *static_cast<const float*>(input(arguments, 2));
    const double number = double(*static_cast<const float*>(input(arguments, 5)));
    const float step_size = float(double(rate) / (1 - std::pow(beta1, number)));
    const float root = float(std::sqrt(1 - std::pow(beta2, number)));
    step.each_chunk(arguments, 3, 2, [&](float* w, const float* g, float* m, float* v, int64_t n) {
      adam_run(adam, rate, step_size, root, w, g, m, v, n);
    });
  }
};

void list_optimizer_step(const Op& op, CandidateList& out) {
  const Attributes& a = op.attributes;
  std::vector<TensorDesc> inputs, outputs;
  for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
  for (const TensorDesc& desc : op.outputs) outputs.push_back(dense_plain(desc));
  const DType dtype = op.in(0).dtype;
  const int factor = op.schema->input_index("grad_scale");
  const Step step{op.in(0).elements(), float_loader(dtype), float_loader(op.in(1).dtype), float_storer(dtype),
                  op.has(factor) ? factor : -1};
  if (a[attr::function] == "sgd") {
    const SgdBody body{
        step,
        {float(a[attr::momentum]), float(1 - a[attr::dampening]), float(a[attr::weight_decay]), a[attr::nesterov]},
        op.has(3)};
    add_candidate(out, "sgd_step", Quality::fast, inputs, outputs, [body] { return body; });
    out.candidates.back().in_place = kInPlace;
    return;
  }
  const double beta1 = a[attr::beta1], beta2 = a[attr::beta2];
  const AdamBody body{step,
                      {float(beta1), float(1 - beta1), float(beta2), float(1 - beta2), float(a[attr::eps]),
                       float(a[attr::weight_decay]), a[attr::decoupled]},
                      beta1,
                      beta2};
  add_candidate(out, "adam_step", Quality::fast, inputs, outputs, [body] { return body; });
  out.candidates.back().in_place = kInPlace;
}
PL_HOST_KIND("optimizer_step", list_optimizer_step);

}  // namespace
}  // namespace pl::host
