// Random numbers: drawn on the device by the library's ops random_*, from the counters of a generator.
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/dropout_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/multinomial_native.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "fallback.h"
#include "numbers.h"
#include "random.h"
#include "shim.h"
#include "transforms.h"

namespace ocl {
namespace {

using at::Tensor;
using MaybeGenerator = std::optional<at::Generator>;

// ---- the library's ops ----

const char* name_of(pl_dtype dtype) {
  static const char* const names[] = {"f32", "f16", "bf16", "s8", "u8", "s32", "s64", "bool"};
  return names[dtype];
}

std::string list_of(c10::IntArrayRef values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

Tensor seed_on(c10::DeviceIndex device, const RandomSeed& seed) {
  const Tensor made = empty_strided({2}, {1}, at::kLong, device);
  check(pl_tensor_write(view_of(made).get(), &seed, sizeof seed));
  return made;
}

// Runs an op of the library into `result`.
void run(const char* op, const std::string& attributes, std::initializer_list<Tensor> inputs, const Tensor& result) {
  std::vector<Handle> held;
  std::vector<pl_tensor> given;
  for (const Tensor& tensor : inputs) given.push_back(held.emplace_back(view_of(tensor)).get());
  const Handle target = view_of(result);
  pl_tensor made = target.get();
  pl_attributes parsed = nullptr;
  check(pl_attributes_create(attributes.c_str(), &parsed));
  const std::unique_ptr<pl_attributes_handle, decltype(&pl_attributes_release)> own(parsed, &pl_attributes_release);
  run_op(op, parsed, given, &made, 1);
}

// Fills a tensor by an op of the kind `random`; `on_host` fills one of the CPU where the library has not the dtype.
template <class OnHost>
Tensor& filled(Tensor& self, const char* op, const std::string& attributes, const MaybeGenerator& generator,
               OnHost&& on_host, uint64_t words = 1) {
  // A generator of the device brings tensors of others here.
  TORCH_CHECK(self.device().type() == kDevice, "ocl: the generator is of ocl, expected one of ", self.device());
  if (self.numel() == 0) return self;
  const c10::DeviceGuard guard(self.device());
  const c10::DeviceIndex device = self.device().index();
  at::assert_no_internal_overlap(self);
  const auto dtype = dtype_of(self.scalar_type());
  if (!dtype) {
    Tensor host = at::empty(self.sizes(), at::TensorOptions(self.scalar_type()));
    on_host(host, host_generator(generator && generator->defined() ? *generator : default_generator(device)));
    self.copy_(host);
    return self;
  }
  const uint64_t counters = (uint64_t(self.numel()) * words + 3) / 4;
  run(op, attributes + " shape=" + list_of(self.sizes()) + " dtype=" + name_of(*dtype),
      {seed_on(device, take_counters(generator, device, counters))}, self);
  return self;
}

// ---- distributions ----

Tensor& uniform(Tensor& self, double low, double high, MaybeGenerator generator) {
  TORCH_CHECK(low <= high, "uniform_ expects to return a [from, to) range, but found from=", low, " > to=", high);
  return filled(self, "random_uniform", "low=" + text_of(low) + " high=" + text_of(high), generator,
                [&](Tensor& host, const at::Generator& drawn) { host.uniform_(low, high, drawn); });
}

Tensor& normal(Tensor& self, double mean, double deviation, MaybeGenerator generator) {
  TORCH_CHECK(deviation >= 0, "normal expects std >= 0.0, but found std ", deviation);
  return filled(self, "random_normal", "mean=" + text_of(mean) + " std=" + text_of(deviation), generator,
                [&](Tensor& host, const at::Generator& drawn) { host.normal_(mean, deviation, drawn); });
}

Tensor& exponential(Tensor& self, double rate, MaybeGenerator generator) {
  TORCH_CHECK(rate > 0, "exponential_ expects lambda > 0.0, but found lambda=", rate);
  if (std::isinf(rate)) return self.zero_();
  return filled(self, "random_exponential", "rate=" + text_of(rate), generator,
                [&](Tensor& host, const at::Generator& drawn) { host.exponential_(rate, drawn); });
}

Tensor& bernoulli(Tensor& self, double p, MaybeGenerator generator) {
  TORCH_CHECK(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  return filled(self, "random_bernoulli", "p=" + text_of(p), generator,
                [&](Tensor& host, const at::Generator& drawn) { host.bernoulli_(p, drawn); });
}

Tensor floats_like(const Tensor& self) { return at::empty(self.sizes(), self.options().dtype(at::kFloat)); }

Tensor& bernoulli_of(Tensor& self, const Tensor& p, MaybeGenerator generator) {
  Tensor drawn = floats_like(self);
  return self.copy_(uniform(drawn, 0, 1, std::move(generator)).lt(p.to(self.device(), at::kFloat)));
}

// The largest integer up to which the dtype holds all.
int64_t largest(at::ScalarType type) {
  switch (type) {
    case at::kBool: return 1;
    case at::kByte: return 255;
    case at::kChar: return 127;
    case at::kShort: return 32767;
    case at::kInt: return std::numeric_limits<int32_t>::max();
    case at::kHalf: return 1 << 11;
    case at::kBFloat16: return 1 << 8;
    case at::kFloat: return 1 << 24;
    case at::kDouble: return int64_t(1) << 53;
    default: return std::numeric_limits<int64_t>::max();
  }
}

// From low to high, both included.
Tensor& integers(Tensor& self, int64_t low, int64_t high, const MaybeGenerator& generator) {
  const bool wide = uint64_t(high) - uint64_t(low) >= uint64_t(1) << 32;
  return filled(
      self, "random_integers", "low=" + std::to_string(low) + " high=" + std::to_string(high), generator,
      [&](Tensor& host, const at::Generator& drawn) {
        if (high == std::numeric_limits<int64_t>::max())
          host.random_(low, std::nullopt, drawn);
        else
          host.random_(low, high + 1, drawn);
      },
      wide ? 2 : 1);
}

Tensor& random(Tensor& self, MaybeGenerator generator) {
  return integers(self, 0, largest(self.scalar_type()), generator);
}

Tensor& random_from(Tensor& self, int64_t from, std::optional<int64_t> to, MaybeGenerator generator) {
  const int64_t high = to ? *to - 1 : largest(self.scalar_type());
  TORCH_CHECK(to ? from < *to : from <= high, "random_ expects 'from' to be less than 'to', but got from=", from,
              " >= to=", to ? *to : high);
  return integers(self, from, high, generator);
}

Tensor& random_to(Tensor& self, int64_t to, MaybeGenerator generator) {
  return random_from(self, 0, to, std::move(generator));
}

// ---- made of these ----

Tensor& log_normal(Tensor& self, double mean, double deviation, MaybeGenerator generator) {
  TORCH_CHECK(deviation > 0, "log_normal_ expects std > 0.0, but found std=", deviation);
  return normal(self, mean, deviation, std::move(generator)).exp_();
}

Tensor& cauchy(Tensor& self, double median, double width, MaybeGenerator generator) {
  TORCH_CHECK(width > 0, "cauchy_ expects sigma > 0.0, but found sigma=", width);
  return uniform(self, -M_PI / 2, M_PI / 2, std::move(generator)).tan_().mul_(width).add_(median);
}

// The first success of trials, from 1 on: an exponential number, cut to whole steps.
Tensor& geometric(Tensor& self, double p, MaybeGenerator generator) {
  TORCH_CHECK(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  Tensor drawn = floats_like(self);
  return self.copy_(exponential(drawn, -std::log1p(-p), std::move(generator)).floor_().add_(1));
}

Tensor normal_of(const Tensor& mean, const Tensor& deviation, MaybeGenerator generator) {
  Tensor made = at::empty(at::infer_size(mean.sizes(), deviation.sizes()), mean.options());
  return normal(made, 0, 1, std::move(generator)).mul(deviation).add(mean);
}
Tensor normal_of_mean(const Tensor& mean, double deviation, MaybeGenerator generator) {
  Tensor made = at::empty(mean.sizes(), mean.options());
  return normal(made, 0, deviation, std::move(generator)).add_(mean);
}
Tensor normal_of_deviation(double mean, const Tensor& deviation, MaybeGenerator generator) {
  Tensor made = at::empty(deviation.sizes(), deviation.options());
  return normal(made, 0, 1, std::move(generator)).mul_(deviation).add_(mean);
}

Tensor& permutation(int64_t n, MaybeGenerator generator, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  if (n == 0) return out;
  const c10::DeviceGuard guard(out.device());
  const c10::DeviceIndex device = out.device().index();
  const bool direct = out.scalar_type() == at::kLong;
  const Tensor made = direct ? out : at::empty({n}, out.options().dtype(at::kLong));
  run("random_permutation", "n=" + std::to_string(n), {seed_on(device, take_counters(generator, device, 1))}, made);
  if (!direct) out.copy_(made);
  return out;
}

// For each row of weights indices drawn with replacement: of uniform numbers below the sum, the first index at which
// the weights' running sum is larger, found by halving.
void draw_with_replacement(Tensor& result, const Tensor& weights, int64_t count, MaybeGenerator generator) {
  const Tensor sums = weights.to(at::kFloat).cumsum(-1);
  const int64_t categories = sums.size(-1);
  Tensor drawn = at::empty(result.sizes(), sums.options());
  // Less than 1 by more than a product's rounding, so that the last sum is larger than any.
  uniform(drawn, 0, 1, std::move(generator)).mul_(1 - 0x1p-22).mul_(sums.narrow(-1, categories - 1, 1));
  Tensor below = at::zeros(result.sizes(), result.options());  // how many sums are not larger
  const Tensor all = at::full({}, categories, result.options());
  int64_t step = 1;
  while (step < categories) step *= 2;
  for (; step > 0; step /= 2) {
    const Tensor next = below.add(step), inside = next.le(categories);
    const Tensor there = sums.gather(-1, at::where(inside, next, all).sub(1));
    below = at::where(there.le(drawn).logical_and(inside), next, below);
  }
  result.copy_(at::where(below.lt(categories), below, all.sub(1)));
}

// ---- dropout ----

// The mask is drawn again for the gradient, from the same counters.
struct Dropout : torch::autograd::Function<Dropout> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& seed, double p) {
    context->save_for_backward({seed});
    context->saved_data["p"] = p;
    return plain(x, seed, p);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const double p = context->saved_data["p"].toDouble();
    const Tensor seed = context->get_saved_variables()[0];
    return {of(gradients[0], seed, p), Tensor(), Tensor()};
  }
  static Tensor of(const Tensor& x, const Tensor& seed, double p) {
    return at::GradMode::is_enabled() && x.requires_grad() ? apply(x, seed, p) : plain(x, seed, p);
  }
  static Tensor plain(const Tensor& x, const Tensor& seed, double p) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::DeviceGuard guard(x.device());
    const Tensor made = at::empty_like(x);
    run("random_dropout", "p=" + text_of(p), {x, seed}, made);
    return made;
  }
};

Tensor dropout(const Tensor& x, double p, bool train) {
  const auto dtype = dtype_of(x.scalar_type());
  const bool own = dtype && *dtype <= PL_BF16;
  if (!train || p == 0) return x;
  if (is_traced(x) || is_transformed(x)) return std::get<0>(at::native_dropout(x, p, true));  // sizes may be symbols
  if (x.numel() == 0) return x;
  if (!own || !(p > 0 && p < 1)) return at::native::dropout(x, p, train);
  return Dropout::of(x, dropout_seed(x.device().index(), x.numel()), p);
}

}  // namespace

bool is_traced(const Tensor& x) {
  return at::isTensorSubclassLike(x) || c10::impl::TorchDispatchModeTLS::any_modes_set();
}

Tensor dropout_seed(c10::DeviceIndex device, int64_t elements) {
  return seed_on(device, take_counters(std::nullopt, device, (uint64_t(elements) + 3) / 4));
}

Tensor dropped(const Tensor& x, const Tensor& seed, double p) { return Dropout::of(x, seed, p); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", uniform);
  m.impl("normal_", normal);
  m.impl("exponential_", exponential);
  m.impl("bernoulli_.float", bernoulli);
  m.impl("bernoulli_.Tensor", bernoulli_of);
  m.impl("random_", random);
  m.impl("random_.from", random_from);
  m.impl("random_.to", random_to);
  m.impl("log_normal_", log_normal);
  m.impl("cauchy_", cauchy);
  m.impl("geometric_", geometric);
  m.impl("normal.Tensor_Tensor", normal_of);
  m.impl("normal.Tensor_float", normal_of_mean);
  m.impl("normal.float_Tensor", normal_of_deviation);
  m.impl("randperm.generator_out", permutation);
  m.impl("multinomial", at::native::multinomial);
  m.impl("multinomial.out", at::native::multinomial_out);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("dropout", dropout); }

}  // namespace ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(multinomial_with_replacement_stub, &ocl::draw_with_replacement)
}  // namespace at::native
