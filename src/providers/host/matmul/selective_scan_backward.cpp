// Kind selective_scan_backward: channels side by side in vectors, states one after the other.  Threads share the blocks
// of channels of an image, each with its states and decays of all steps; what sums over channels is added up
// afterwards, block by block.
#include <algorithm>
#include <cmath>
#include <vector>

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"
#include "providers/host/pointwise/functions.h"

namespace pl::host {
namespace {

constexpr int64_t kLanes = 16;  // channels of a block

// The next states of a block from those before, all zeros at first.
PL_VECTORISED void step_forth(const float* decay, const float* taken, const float* b, const float* before,
                              int64_t states, float* h) {
  for (int64_t i = 0; i < states; ++i) {
    PL_INDEPENDENT
    for (int64_t l = 0; l < kLanes; ++l)
      h[i * kLanes + l] = (before ? decay[i * kLanes + l] * before[i * kLanes + l] : 0.0f) + taken[l] * b[i];
  }
}

// What a step gives; `later`, by state and channel, comes from the next step and goes to the one before.
struct StepBack {
  const float *decay, *h, *before;  // by state and channel; before is null at the first step
  const float *rates, *b, *c;       // rates by state and channel, b and c by state
  const float *value, *delta, *grad;
};

PL_VECTORISED void step_back(const StepBack& at, int64_t states, float* later, float* of_rates, float* by_value,
                             float* by_delta, float* of_taken, float* of_given) {
  float of_value[kLanes] = {}, of_delta[kLanes] = {}, weight[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) weight[l] = at.delta[l] * at.value[l];
  for (int64_t i = 0; i < states; ++i) {
    float given = 0, taken = 0;
    for (int64_t l = 0; l < kLanes; ++l) {
      const int64_t k = i * kLanes + l;
      const float m = at.grad[l] * at.c[i] + later[k];
      const float kept = at.before ? m * at.decay[k] * at.before[k] : 0.0f;
      of_value[l] += m * at.b[i];
      of_delta[l] += kept * at.rates[k] + m * at.b[i] * at.value[l];
      of_rates[k] += kept * at.delta[l];
      later[k] = m * at.decay[k];
      taken += m * weight[l];
      given += at.grad[l] * at.h[k];
    }
    of_taken[i] = taken;
    of_given[i] = given;
  }
  for (int64_t l = 0; l < kLanes; ++l) by_value[l] = of_value[l] * at.delta[l];
  std::copy(of_delta, of_delta + kLanes, by_delta);
}

struct Body {
  TensorDesc u, a, b;  // delta and grad lie as u does, c as b, and gradients as what they are of
  LoadRun<float> load;
  StoreRun<float> store;
  UnaryRun<float> exponential;

  int64_t states() const { return a.shape[1]; }
  int64_t steps() const { return u.shape[2]; }

  // da, by state and channel of the block, is added to; those of db and dc are of this block.
  void run_block(const KernelArguments& arguments, int64_t image, int64_t first, float* of_rates, float* of_taken,
                 float* of_given) const {
    const int64_t row = states() * kLanes, channels = std::min(kLanes, u.shape[1] - first);
    std::vector<float> space(size_t((2 * steps() + 2) * row + 2 * states()), 0.0f);
    float *h = space.data(), *decay = h + steps() * row, *rates = decay + steps() * row, *later = rates + row;
    float *b_row = later + row, *c_row = b_row + states();
    for (int64_t i = 0; i < states(); ++i)
      load(input(arguments, 2), first * a.strides[0] + i * a.strides[1], a.strides[0], channels, rates + i * kLanes);
    float deltas[kLanes] = {}, values[kLanes] = {}, grads[kLanes] = {}, weights[kLanes], by_value[kLanes],
          by_delta[kLanes];
    const auto at = [&](int64_t t) { return image * u.strides[0] + first * u.strides[1] + t * u.strides[2]; };
    const auto load_step = [&](int64_t t) {
      load(input(arguments, 0), at(t), u.strides[1], channels, values);
      load(input(arguments, 1), at(t), u.strides[1], channels, deltas);
      load(input(arguments, 3), image * b.strides[0] + t * b.strides[1], b.strides[2], states(), b_row);
    };
    for (int64_t t = 0; t < steps(); ++t) {
      load_step(t);
      float* of_step = decay + t * row;
      for (int64_t i = 0; i < states(); ++i)
        for (int64_t l = 0; l < kLanes; ++l) of_step[i * kLanes + l] = rates[i * kLanes + l] * deltas[l];
      exponential(of_step, of_step, row, 0, 0);
      for (int64_t l = 0; l < kLanes; ++l) weights[l] = values[l] * deltas[l];
      step_forth(of_step, weights, b_row, t > 0 ? h + (t - 1) * row : nullptr, states(), h + t * row);
    }
    for (int64_t t = steps(); t-- > 0;) {
      load_step(t);
      load(input(arguments, 4), image * b.strides[0] + t * b.strides[1], b.strides[2], states(), c_row);
      load(input(arguments, 5), at(t), u.strides[1], channels, grads);
      const StepBack step{decay + t * row, h + t * row, t > 0 ? h + (t - 1) * row : nullptr,
                          rates,           b_row,       c_row,
                          values,          deltas,      grads};
      step_back(step, states(), later, of_rates, by_value, by_delta, of_taken + t * states(), of_given + t * states());
      store(by_value, channels, output(arguments, 0), at(t), u.strides[1]);
      store(by_delta, channels, output(arguments, 1), at(t), u.strides[1]);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const int64_t blocks = (u.shape[1] + kLanes - 1) / kLanes, row = states() * kLanes, sums = steps() * states();
    std::vector<float> of_rates(size_t(blocks * row), 0.0f), of_taken(size_t(blocks * sums)),
        of_given(size_t(blocks * sums));
    const double nanoseconds = double(steps()) * (30 + 40.0 * double(states()));
    for (int64_t image = 0; image < u.shape[0]; ++image) {
      parallel_for(blocks, nanoseconds, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
          run_block(arguments, image, k * kLanes, of_rates.data() + k * row, of_taken.data() + k * sums,
                    of_given.data() + k * sums);
      });
      parallel_for(sums, 1.0 * double(blocks), [&](int64_t begin, int64_t end) {
        for (std::vector<float>* parts : {&of_taken, &of_given})
          for (int64_t k = 1; k < blocks; ++k)
            for (int64_t i = begin; i < end; ++i) (*parts)[size_t(i)] += (*parts)[size_t(k * sums + i)];
      });
      if (blocks == 0) break;  // there is nothing to add up: the results below are zeros
      store(of_taken.data(), sums, output(arguments, 3), image * sums, 1);
      store(of_given.data(), sums, output(arguments, 4), image * sums, 1);
    }
    for (int64_t d = 0; d < u.shape[1]; ++d)
      for (int64_t i = 0; i < states(); ++i)
        store(&of_rates[size_t(d / kLanes * row + i * kLanes + d % kLanes)], 1, output(arguments, 2), d * states() + i,
              1);
    if (blocks > 0) return;
    const std::vector<float> zeros(size_t(u.shape[0] * sums), 0.0f);
    for (int k = 3; k < 5; ++k) store(zeros.data(), int64_t(zeros.size()), output(arguments, k), 0, 1);
  }
};

void list_selective_scan_backward(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  const TensorDesc a = dense_plain(op.in(2)), b = dense_plain(op.in(3));
  for (const char* name : {"abc", "acb"}) {
    const Layout layout = Layout::parse(name);
    const TensorDesc u = op.in(0).with_layout(layout);
    add_candidate(out, "scan", Quality::fast, {u, u, a, b, b, u}, {u, u, a, b, b},
                  [=] { return Body{u, a, b, float_loader(dtype), float_storer(dtype), find_float_unary("exp")}; });
  }
}
PL_HOST_KIND("selective_scan_backward", list_selective_scan_backward);

}  // namespace
}  // namespace pl::host
