// Attention of heads, forward and backward an op of the library each, which keep no scores. On devices that gain by it:
// PyTorch makes products and a softmax of it.
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "attention.h"
#include "derivable.h"
#include "random.h"
#include "shim.h"
#include "transforms.h"

namespace ocl {
namespace {

using at::Tensor;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;

constexpr int64_t kWidestRow = 256;  // bytes of a head's row that every GPU has local memory for, backward too

std::array<std::atomic<bool>, 64> gaining{};  // by the device's index

struct Weighing {
  double p;
  bool causal;
  std::optional<double> scale;
};

// By the op's program, without autograd. The tensors: (grad,) q, k, v, mask and seed, the last two perhaps undefined.
torch::jit::Stack called(const char* name, const variable_list& tensors, const Weighing& how) {
  const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  torch::jit::Stack stack;
  for (const Tensor& tensor : tensors) stack.emplace_back(tensor.defined() ? c10::IValue(tensor) : c10::IValue());
  stack.emplace_back(how.p);
  stack.emplace_back(how.causal);
  stack.emplace_back(how.scale ? c10::IValue(*how.scale) : c10::IValue());
  op.callBoxed(&stack);
  return stack;
}

// The same of PyTorch's ops, whose gradients have gradients.
Tensor composed(const variable_list& given, const Weighing& how) {
  const Tensor &q = given[0], &mask = given[3], &seed = given[4];
  const auto repeated = [&](const Tensor& x) { return x.repeat_interleave(q.size(1) / x.size(1), 1); };
  Tensor scores = at::matmul(q, repeated(given[1]).mT()) * how.scale.value_or(1 / std::sqrt(double(q.size(3))));
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  if (mask.defined())
    scores = mask.scalar_type() == at::kBool ? scores.masked_fill(mask.logical_not(), kHidden) : scores + mask;
  if (how.causal) {
    const Tensor seen = at::ones({scores.size(2), scores.size(3)}, q.options().dtype(at::kBool));
    scores = scores.masked_fill(seen.tril().logical_not(), kHidden);
  }
  const Tensor weights = at::_safe_softmax(scores, -1);
  return at::matmul(seed.defined() ? dropped(weights, seed, how.p) : weights, repeated(given[2]));
}

struct Attention : torch::autograd::Function<Attention> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const MaybeTensor& maybe_mask, const MaybeTensor& maybe_seed, const Weighing& how) {
    const Tensor mask = maybe_mask.value_or(Tensor()), seed = maybe_seed.value_or(Tensor());
    context->save_for_backward({q, k, v, mask, seed});
    context->saved_data["p"] = how.p;
    context->saved_data["causal"] = how.causal;
    context->saved_data["scale"] = how.scale ? c10::IValue(*how.scale) : c10::IValue();
    const at::AutoDispatchBelowADInplaceOrView below;
    return called("pylayout::attention", {q, k, v, mask, seed}, how).front().toTensor();
  }
  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& gradients) {
    const Weighing how{context->saved_data["p"].toDouble(), context->saved_data["causal"].toBool(),
                       context->saved_data["scale"].toOptional<double>()};
    variable_list given = context->get_saved_variables();
    variable_list made;
    if (at::GradMode::is_enabled()) {
      made = derivable_gradients(given, gradients[0], [&](const variable_list& of) { return composed(of, how); });
    } else {
      given.insert(given.begin(), gradients[0]);
      const at::AutoDispatchBelowADInplaceOrView below;
      for (const c10::IValue& each : called("pylayout::attention_backward", given, how))
        made.push_back(each.toTensor());
    }
    made.resize(6);
    return made;
  }
};

bool suits(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& mask, bool causal, bool shares) {
  for (const Tensor& x : {q, k, v})
    if (x.dim() != 4 || x.device() != q.device() || x.scalar_type() != q.scalar_type() || x.numel() == 0) return false;
  const at::ScalarType dtype = q.scalar_type();
  if (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16) return false;
  if (k.size(0) != q.size(0) || k.size(3) != q.size(3) || v.size(0) != q.size(0)) return false;
  if (v.size(1) != k.size(1) || v.size(2) != k.size(2)) return false;
  if (q.size(1) != k.size(1) && !(shares && q.size(1) % k.size(1) == 0)) return false;
  if (std::max(q.size(3), v.size(3)) * int64_t(q.element_size()) > kWidestRow) return false;
  if (!mask || !mask->defined()) return true;
  return !causal && mask->device() == q.device() && mask->dim() <= 4 && !mask->requires_grad() &&
         (mask->scalar_type() == at::kBool || mask->scalar_type() == dtype);
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& attn_mask, double p,
                 bool causal, std::optional<double> scale, bool shares) {
  Tensor q = query, k = key, v = value;
  MaybeTensor mask = attn_mask;
  const c10::Device device = q.device();
  const bool gains = device.has_index() && size_t(device.index()) < gaining.size() && gaining[size_t(device.index())];
  if (at::autocast::is_autocast_enabled(kDevice)) {
    const at::ScalarType dtype = at::autocast::get_autocast_dtype(kDevice);
    const auto lower = [&](Tensor& x) {
      if (x.defined() && c10::isFloatingType(x.scalar_type()) && x.scalar_type() != at::kDouble) x = x.to(dtype);
    };
    for (Tensor* x : {&q, &k, &v}) lower(*x);
    if (mask) lower(*mask);
  }
  if (!gains || !(p >= 0 && p < 1) || is_traced(q) || is_transformed(q) || !suits(q, k, v, mask, causal, shares))
    return at::native::scaled_dot_product_attention(query, key, value, attn_mask, p, causal, scale, shares);
  const Weighing how{p, causal, scale};
  MaybeTensor seed;
  if (p > 0) seed = dropout_seed(device.index(), q.size(0) * q.size(1) * q.size(2) * k.size(2));
  const bool derives = q.requires_grad() || k.requires_grad() || v.requires_grad();
  if (at::GradMode::is_enabled() && derives) return Attention::apply(q, k, v, mask, seed, how);
  const at::AutoDispatchBelowADInplaceOrView below;
  const variable_list given{q, k, v, mask.value_or(Tensor()), seed.value_or(Tensor())};
  return called("pylayout::attention", given, how).front().toTensor();
}

}  // namespace

void gain_by_attention(c10::DeviceIndex index, bool gains) {
  if (index >= 0 && size_t(index) < gaining.size()) gaining[size_t(index)] = gains;
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("scaled_dot_product_attention", attention); }

}  // namespace ocl
