// Functions of one argument.  Formulas are those listed in ops/activation.cpp, NaN goes through all of them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "providers/host/common/independent.h"
#include "providers/host/conv/conv_kernels.h"
#include "providers/host/pointwise/clip_run.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/vector_math.h"
#include "providers/host/pointwise/vector_trigonometry.h"

namespace pl::host {
namespace {

template <class F>
PL_VECTORISED void run_float(const float* x, float* y, int64_t n, double alpha, double beta) {
  const float a = float(alpha), b = float(beta);
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = F::of(x[i], a, b);
}

struct NamedUnary {
  const char* name;
  UnaryRun<float> run;
};

#define PL_FUNCTION(Name, expression)                                                                             \
  struct Name {                                                                                                   \
    static PL_INLINE float of(float x, [[maybe_unused]] float a, [[maybe_unused]] float b) { return expression; } \
  };

PL_FUNCTION(Relu, math::maximum(x, 0.0f))
PL_FUNCTION(Relu6, math::clip(x, 0.0f, 6.0f))
PL_FUNCTION(LeakyRelu, x > 0.0f ? x : a * x)
PL_FUNCTION(Elu, x > 0.0f ? x : a * math::expm1(x))
PL_FUNCTION(Selu, 1.0507009873554805f * (x > 0.0f ? x : 1.6732632423543772f * math::expm1(x)))
PL_FUNCTION(GeluErf, math::gelu_erf(x))
PL_FUNCTION(GeluErfSlope, math::gelu_erf_slope(x))
// 0.5 (1 + tanh(u)) = sigmoid(2 u), without the cancellation at negative x.
PL_FUNCTION(GeluTanh, x* math::sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x)))
PL_FUNCTION(Silu, x / (1.0f + math::exp(-x)))
PL_FUNCTION(HardSigmoid, math::clip(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f))
PL_FUNCTION(HardSwish, (x * kSixth) * (math::clip(x + 3.0f, 0.0f, 6.0f) * kSixthRest))
PL_FUNCTION(Sigmoid, math::sigmoid(x))
PL_FUNCTION(Tanh, math::tanh(x))
PL_FUNCTION(Softplus, math::softplus(x, a, b))
PL_FUNCTION(Mish, math::mish(x))
PL_FUNCTION(Softsign, x / (1.0f + math::abs(x)))
PL_FUNCTION(Abs, math::abs(x))
PL_FUNCTION(Neg, -x)
PL_FUNCTION(Exp, math::exp(x))
PL_FUNCTION(Log, math::log(x))
PL_FUNCTION(Sqrt, __builtin_sqrtf(x))
PL_FUNCTION(Rsqrt, 1.0f / __builtin_sqrtf(x))
PL_FUNCTION(Reciprocal, 1.0f / x)
PL_FUNCTION(Square, x* x)
PL_FUNCTION(Sin, math::sin(x))
PL_FUNCTION(Cos, math::cos(x))
PL_FUNCTION(Tan, math::tan(x))
PL_FUNCTION(Asin, math::asin(x))
PL_FUNCTION(Acos, math::acos(x))
PL_FUNCTION(Atan, math::atan(x))
PL_FUNCTION(Sinh, math::sinh(x))
PL_FUNCTION(Cosh, math::cosh(x))
PL_FUNCTION(Atanh, math::atanh(x))
PL_FUNCTION(Erf, math::erf(x))
PL_FUNCTION(Floor, __builtin_floorf(x))
PL_FUNCTION(Ceil, __builtin_ceilf(x))
PL_FUNCTION(Round, __builtin_rintf(x))
PL_FUNCTION(Sign, x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : (x == 0.0f ? 0.0f : x)))
PL_FUNCTION(Trunc, __builtin_truncf(x))
PL_FUNCTION(Celu, x > 0.0f ? x : a * math::expm1(x / a))
PL_FUNCTION(Threshold, x <= a ? b : x)
PL_FUNCTION(Identity, x)
PL_FUNCTION(IsNan, x != x ? 1.0f : 0.0f)
PL_FUNCTION(IsInf, math::abs(x) == math::kInfinity ? 1.0f : 0.0f)
PL_FUNCTION(LogicalNot, x == 0.0f ? 1.0f : 0.0f)
#undef PL_FUNCTION

void run_clip(const float* x, float* y, int64_t n, double low, double high) {
  clip_run(x, float(low), float(high), y, n);
}

// Elements beyond the range of the fast reduction (and infinities) go to the C library.
template <class F, float (*Exact)(float)>
PL_VECTORISED void run_trigonometric(const float* x, float* y, int64_t n, double, double) {
  constexpr int64_t kBlock = 256;
  float values[kBlock];  // y may be x, which Exact reads
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t count = std::min(kBlock, n - start);
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float value = x[start + i];
      const uint32_t magnitude = math::bits_of(math::abs(value));  // ordered as the floats are
      largest = magnitude > largest ? magnitude : largest;
      values[i] = F::of(value, 0, 0);
    }
    if (largest > math::bits_of(math::kTrigonometricLimit))
      for (int64_t i = 0; i < count; ++i)
        if (math::abs(x[start + i]) > math::kTrigonometricLimit) values[i] = Exact(x[start + i]);
    std::copy(values, values + count, y + start);
  }
}
float exact_sin(float x) { return std::sin(x); }
float exact_cos(float x) { return std::cos(x); }
float exact_tan(float x) { return std::tan(x); }

// Functions that networks hardly use, one element at a time.
template <float (*Exact)(float)>
void run_library(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = Exact(x[i]);
}

constexpr NamedUnary kFunctions[] = {
    {"relu", run_float<Relu>},
    {"relu6", run_float<Relu6>},
    {"leaky_relu", run_float<LeakyRelu>},
    {"elu", run_float<Elu>},
    {"selu", run_float<Selu>},
    {"gelu_erf", run_float<GeluErf>},
    {"gelu_tanh", run_float<GeluTanh>},
    {"silu", run_float<Silu>},
    {"hardswish", run_float<HardSwish>},
    {"hardsigmoid", run_float<HardSigmoid>},
    {"sigmoid", run_float<Sigmoid>},
    {"tanh", run_float<Tanh>},
    {"clip", run_clip},
    {"softplus", run_float<Softplus>},
    {"mish", run_float<Mish>},
    {"softsign", run_float<Softsign>},
    {"abs", run_float<Abs>},
    {"neg", run_float<Neg>},
    {"exp", run_float<Exp>},
    {"log", run_float<Log>},
    {"sqrt", run_float<Sqrt>},
    {"rsqrt", run_float<Rsqrt>},
    {"reciprocal", run_float<Reciprocal>},
    {"square", run_float<Square>},
    {"sin", run_trigonometric<Sin, exact_sin>},
    {"cos", run_trigonometric<Cos, exact_cos>},
    {"erf", run_float<Erf>},
    {"floor", run_float<Floor>},
    {"ceil", run_float<Ceil>},
    {"round", run_float<Round>},
    {"sign", run_float<Sign>},
    {"trunc", run_float<Trunc>},
    {"tan", run_trigonometric<Tan, exact_tan>},
    {"asin", run_float<Asin>},
    {"acos", run_float<Acos>},
    {"atan", run_float<Atan>},
    {"sinh", run_float<Sinh>},
    {"cosh", run_float<Cosh>},
    {"asinh", run_library<std::asinh>},
    {"acosh", run_library<std::acosh>},
    {"atanh", run_float<Atanh>},
    {"celu", run_float<Celu>},
    {"threshold", run_float<Threshold>},
    {"identity", run_float<Identity>},
    {"logical_not", run_float<LogicalNot>},
    {"isnan", run_float<IsNan>},
    {"isinf", run_float<IsInf>},
};

}  // namespace

int64_t integer_limit(double limit, bool lowest) {
  limit = lowest ? std::ceil(limit) : std::floor(limit);
  if (limit <= -9.2e18) return std::numeric_limits<int64_t>::min();
  if (limit >= 9.2e18) return std::numeric_limits<int64_t>::max();
  return int64_t(limit);
}

UnaryRun<float> find_float_unary(std::string_view name) {
  for (const NamedUnary& function : kFunctions)
    if (name == function.name) return function.run;
  return nullptr;
}

UnaryRun<float> gelu_erf_slope() { return run_float<GeluErfSlope>; }

Activation Activation::of(const PostOp& function) {
  Activation activation;
  activation.floats = find_float_unary(function.name);
  activation.integers = find_integer_unary(function.name);
  require(activation.floats != nullptr, Code::internal, "post-op ", function.name,
          " is not known to the host provider");
  activation.alpha = function.alpha();
  activation.beta = function.beta();
  return activation;
}

AppliedPostOps::AppliedPostOps(const Op& op, size_t first) {
  const PostOps& list = post_ops_of(op);
  for (size_t i = first; i < list.size(); ++i) {
    const PostOp& step = list[i];
    const bool function = step.kind == PostOp::Kind::function;
    steps_.push_back({step.kind, function ? Activation::of(step) : Activation(), step.alpha(),
                      step.reads_input() ? operand_of(*op.schema, step) : -1});
  }
}

StoredPostOps::StoredPostOps(const Op& op) {
  const PostOps& list = post_ops_of(op);
  size_t at = 0;
  if (at < list.size() && list[at].kind == PostOp::Kind::add) first.added = operand_of(*op.schema, list[at++]);
  if (at < list.size() && list[at].kind == PostOp::Kind::function) first.function = &list[at++];
  rest = AppliedPostOps(op, at);
}

void Activation::apply(double* values, int64_t n) const {
  if (!floats) return;
  float buffer[256];
  for (int64_t start = 0; start < n; start += 256) {
    const int64_t count = std::min<int64_t>(256, n - start);
    std::copy(values + start, values + start + count, buffer);
    floats(buffer, buffer, count, alpha, beta);
    std::copy(buffer, buffer + count, values + start);
  }
}

}  // namespace pl::host
