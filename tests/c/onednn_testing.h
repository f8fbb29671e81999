// What the tests of oneDNN's candidates share: the provider, the device, every candidate of an op against a reference.
// PYLAYOUT_TEST_VERBOSE=1 prints ops, candidates and refusals.
#pragma once

#include <cmath>

#include "candidates.h"
#include "check.h"
#include "providers/onednn/engine.h"

namespace pltest {

inline std::unique_ptr<Provider> provider;
inline std::shared_ptr<Device> device;

// For SETUP of each file.
inline void find_onednn() {
  for (auto& made : make_providers())
    if (made->name() == "onednn") provider = std::move(made);
  REQUIRE(provider != nullptr);
  device = make_cpu_device();
}

// At least so many candidates; 0: there must be none.
inline Outcome check(const std::string& name, const std::string& attributes, const std::vector<Argument>& arguments,
                     const Values& expected, int at_least = 1) {
  const bool impossible = at_least == 0;
  const Outcome outcome = check_candidates(*provider, *device, name, attributes, arguments, expected,
                                           tolerance_of(arguments[0].desc.dtype));
  // oneDNN computes in bf16 from AVX-512 on, emulating what the processor lacks.
  if (arguments[0].desc.dtype == DType::bf16 && !onednn::has_avx512()) at_least = 0;
  if (outcome.candidates < at_least || (impossible && outcome.candidates > 0)) {
    std::printf("FAILED %s %s: %d candidates, expected %s %d\n", name.c_str(), attributes.c_str(), outcome.candidates,
                impossible ? "exactly" : "at least", at_least);
    check_count_failure();
  }
  return outcome;
}

inline std::string list_text(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

inline double activate(const std::string& f, double x, double a = 0, double b = 0) {
  if (f == "relu") return std::isnan(x) ? x : std::max(x, 0.0);
  if (f == "relu6") return std::min(std::max(x, 0.0), 6.0);
  if (f == "leaky_relu") return x > 0 ? x : a * x;
  if (f == "elu") return x > 0 ? x : a * std::expm1(x);
  if (f == "selu") return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
  if (f == "gelu" || f == "gelu_erf") return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  if (f == "gelu_tanh") return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (f == "silu") return x / (1 + std::exp(-x));
  if (f == "hardswish") return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
  if (f == "hardsigmoid") return std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
  if (f == "sigmoid") return 1 / (1 + std::exp(-x));
  if (f == "tanh") return std::tanh(x);
  if (f == "clip") return std::min(std::max(x, a), b);
  if (f == "softplus") return a * x > b ? x : std::log1p(std::exp(a * x)) / a;
  if (f == "mish") return x * std::tanh(x > 30 ? x : std::log1p(std::exp(x)));
  if (f == "abs") return std::fabs(x);
  if (f == "neg") return -x;
  if (f == "exp") return std::exp(x);
  if (f == "log") return std::log(x);
  if (f == "sqrt") return std::sqrt(x);
  if (f == "reciprocal") return 1 / x;
  if (f == "rsqrt") return 1 / std::sqrt(x);
  if (f == "square") return x * x;
  if (f == "round") return std::nearbyint(x);
  return x;
}

}  // namespace pltest
