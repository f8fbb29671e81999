// Kind selective_scan: channels side by side in vectors, states one after the other, step by step.
#include <algorithm>
#include <cmath>

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"
#include "providers/host/pointwise/functions.h"

namespace pl::host {
namespace {

constexpr int64_t kScanLanes = 16;  // channels of a block: two vectors of AVX2, one of AVX-512

// By state and channel: what a step's decay is the exponential of.
PL_VECTORISED void exponents(const float* rates, const float* delta, int64_t states, float* out) {
  for (int64_t i = 0; i < states; ++i) {
    PL_INDEPENDENT
    for (int64_t l = 0; l < kScanLanes; ++l) out[i * kScanLanes + l] = rates[i * kScanLanes + l] * delta[l];
  }
}

PL_VECTORISED void advance(const float* decay, const float* taken, const float* b, const float* c, int64_t states,
                           float* h, float* y) {
  float sums[kScanLanes] = {};
  for (int64_t i = 0; i < states; ++i) {
    PL_INDEPENDENT
    for (int64_t l = 0; l < kScanLanes; ++l) {
      const float state = decay[i * kScanLanes + l] * h[i * kScanLanes + l] + taken[l] * b[i];
      h[i * kScanLanes + l] = state;
      sums[l] += state * c[i];
    }
  }
  std::copy(sums, sums + kScanLanes, y);
}

struct ScanBody {
  TensorDesc u, delta, a, b, y;  // c lies as b does
  LoadRun<float> load;
  StoreRun<float> store;
  UnaryRun<float> exponential;

  void run_block(const KernelArguments& arguments, int64_t image, int64_t first) const {
    const int64_t states = a.shape[1], steps = u.shape[2], channels = std::min(kScanLanes, u.shape[1] - first);
    std::vector<float> space(size_t(states * (3 * kScanLanes + 2)));
    float *rates = space.data(), *h = rates + states * kScanLanes, *decay = h + states * kScanLanes;
    float *b_row = decay + states * kScanLanes, *c_row = b_row + states;
    for (int64_t i = 0; i < states; ++i)
      load(input(arguments, 2), first * a.strides[0] + i * a.strides[1], a.strides[0], channels,
           rates + i * kScanLanes);
    float deltas[kScanLanes] = {}, values[kScanLanes] = {}, result[kScanLanes];
    const auto at = [&](const TensorDesc& desc, int64_t t) {
      return image * desc.strides[0] + first * desc.strides[1] + t * desc.strides[2];
    };
    for (int64_t t = 0; t < steps; ++t) {
      load(input(arguments, 1), at(delta, t), delta.strides[1], channels, deltas);
      load(input(arguments, 0), at(u, t), u.strides[1], channels, values);
      for (int64_t l = 0; l < kScanLanes; ++l) values[l] *= deltas[l];
      const int64_t row = image * b.strides[0] + t * b.strides[1];
      load(input(arguments, 3), row, b.strides[2], states, b_row);
      load(input(arguments, 4), row, b.strides[2], states, c_row);
      exponents(rates, deltas, states, decay);
      exponential(decay, decay, states * kScanLanes, 0, 0);
      advance(decay, values, b_row, c_row, states, h, result);
      store(result, channels, output(arguments), at(y, t), y.strides[1]);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const int64_t blocks = (u.shape[1] + kScanLanes - 1) / kScanLanes;
    const double nanoseconds = double(u.shape[2]) * (10 + 8.0 * double(a.shape[1]));
    parallel_for(u.shape[0] * blocks, nanoseconds, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) run_block(arguments, k / blocks, k % blocks * kScanLanes);
    });
  }
};

void list_selective_scan(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  for (const char* name : {"abc", "acb"}) {
    const Layout layout = Layout::parse(name);
    const TensorDesc u = op.in(0).with_layout(layout), delta = op.in(1).with_layout(layout);
    const TensorDesc a = dense_plain(op.in(2)), b = dense_plain(op.in(3)), y = op.out().with_layout(layout);
    add_candidate(out, "scan", Quality::fast, {u, delta, a, b, b}, {y}, [=] {
      return ScanBody{u, delta, a, b, y, float_loader(dtype), float_storer(dtype), find_float_unary("exp")};
    });
  }
}
PL_HOST_KIND("selective_scan", list_selective_scan);

}  // namespace
}  // namespace pl::host
