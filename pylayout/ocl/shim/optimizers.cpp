// The fused steps of optimizers (torch.optim's fused=True), and what GradScaler needs: by the library's ops of these
// steps, of which those of many weights are started as one; else a kernel for each tensor that changes. All are written
// where they lie.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "fallback.h"
#include "formula.h"
#include "later.h"
#include "numbers.h"
#include "shim.h"

namespace ocl {
namespace {

using at::Tensor;
using at::TensorList;

struct Gradient {
  bool maximize;
  double decay;  // of the weights, added to the gradient; 0: none
  const MaybeTensor& scale;

  std::string of(Formula& formula, const Tensor& gradient, const Tensor& weight) const {
    std::string text = formula.x(gradient);
    if (scale) text = "(" + text + " / " + formula.x(*scale) + ")";
    if (maximize) text = "(-" + text + ")";
    if (decay != 0) text = "(" + text + " + " + formula.s(decay) + " * " + formula.x(weight) + ")";
    return text;
  }
};

// What gradients are multiplied by: 0 where nothing is to change; undefined: 1.
Tensor factor_of(const MaybeTensor& scale, const MaybeTensor& skip) {
  if (!scale && !skip) return {};
  const Tensor made = empty_strided({}, {}, at::kFloat, (scale ? *scale : *skip).device().index());
  Formula f;
  const std::string inverse = scale ? "1 / " + f.x(*scale) : "1";
  f.write(made, skip ? "(" + f.x(*skip) + " != 0 ? 0 : " + inverse + ")" : inverse);
  return made;
}

// Whether the library's own steps take these: what is kept with a weight has its dtype.
bool are_alike(const Tensor& weight, std::initializer_list<const Tensor*> kept) {
  return weight.scalar_type() != at::kDouble && std::all_of(kept.begin(), kept.end(), [&](const Tensor* each) {
           return each->scalar_type() == weight.scalar_type();
         });
}

// Steps by their first weight, and how often their numbers changed, beside the rate: a schedule of momentum has others in
// each step, and as a part of kernels each would need one of its own.
class Schedules {
 public:
  // Whether the numbers of this step are to be read by its kernels. They are a part of them again once they stayed.
  bool changes(TensorList weights, std::vector<double> numbers) {
    constexpr size_t kMost = 256;
    constexpr int kChanges = 2, kSteady = 128;
    if (weights.empty()) return false;
    std::lock_guard<std::mutex> guard(lock_);
    const auto found = steps_.find(weights[0].unsafeGetTensorImpl());
    if (found == steps_.end() || found->second.weight.expired()) {
      if (steps_.size() >= kMost) steps_.clear();
      const Weight weight(weights[0].getIntrusivePtr());
      steps_.insert_or_assign(weights[0].unsafeGetTensorImpl(), Step{weight, std::move(numbers), 0, 0});
      return false;
    }
    Step& step = found->second;
    if (step.numbers == numbers) {
      if (++step.same == kSteady) step.changed = 0;
    } else {
      step.numbers = std::move(numbers);
      step.same = 0;
      ++step.changed;
    }
    return step.changed >= kChanges;
  }

 private:
  using Weight = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Step {
    Weight weight;
    std::vector<double> numbers;
    int changed, same;
  };
  std::mutex lock_;
  std::map<const c10::TensorImpl*, Step> steps_;
};

bool numbers_change(TensorList weights, std::vector<double> numbers) {
  static auto* self = new Schedules;
  return self->changes(weights, std::move(numbers));
}

// Makes the devices of tensors current, one after another.
class OnDeviceOf {
 public:
  void operator()(const Tensor& tensor) {
    if (tensor.device().index() != current_device()) guard_.reset_device(tensor.device());
  }

 private:
  c10::OptionalDeviceGuard guard_;
};

// As PyTorch's kernels do, what the steps took for gradients takes the place of the scaled ones.
void keep_unscaled(TensorList gradients, const MaybeTensor& scale, const MaybeTensor& skip) {
  for (const Tensor& gradient : gradients) {
    if (!scale || gradient.numel() == 0) continue;
    Formula f;
    f.write(gradient, f.x(gradient) + " / " + f.x(*scale), skip);
  }
}

Operand operand_or_none(const Tensor& tensor) { return tensor.defined() ? placed_operand_of(tensor) : Operand(); }

void adam(bool decoupled, TensorList weights, TensorList gradients, TensorList means, TensorList squares,
          TensorList largest, TensorList steps, const Tensor& rate, double beta1, double beta2, double decay,
          double eps, bool amsgrad, bool maximize, const MaybeTensor& scale, const MaybeTensor& skip) {
  const Gradient gradient{maximize, decoupled ? 0 : decay, scale};
  const Tensor factor = factor_of(scale, skip);
  const bool open = numbers_change(weights, {beta1, beta2, eps, decay});
  const Attributes attributes = open ? nullptr
                                     : attributes_of("beta1=" + text_of(beta1) + " beta2=" + text_of(beta2) +
                                                     " eps=" + text_of(eps) + " weight_decay=" + text_of(decay));
  const auto formula_on = [&](const Tensor& weight) { return open ? Formula(weight.device().index()) : Formula(); };
  Batch batch;
  OnDeviceOf on_device_of;
  const Operand rate_there = operand_or_none(rate), factor_there = operand_or_none(factor);
  for (size_t i = 0; i < weights.size(); ++i) {
    on_device_of(weights[i]);
    if (weights[i].numel() == 0) continue;
    if (attributes && !maximize && !amsgrad && are_alike(weights[i], {&means[i], &squares[i]})) {
      const Operand w = placed_operand_of(weights[i]), m = placed_operand_of(means[i]),
                    v = placed_operand_of(squares[i]);
      Operand operands[] = {
          w, placed_operand_of(gradients[i]), rate_there, m, v, placed_operand_of(steps[i]), factor_there, w, m, v};
      Later::add(weights[i].device().index(), decoupled ? "adamw_step" : "adam_step", attributes.get(), operands, 7, 3,
                 attributes);
      continue;
    }
    {
      Formula f = formula_on(weights[i]);
      const std::string g = gradient.of(f, gradients[i], weights[i]), m = f.x(means[i]);
      f.write(means[i], f.s(beta1) + " * " + m + " + " + f.s(1 - beta1) + " * " + g, skip);
    }
    {
      Formula f = formula_on(weights[i]);
      const std::string g = gradient.of(f, gradients[i], weights[i]), v = f.x(squares[i]);
      f.write(squares[i], f.s(beta2) + " * " + v + " + " + f.s(1 - beta2) + " * " + g + " * " + g, skip);
    }
    if (amsgrad) {
      Formula f = formula_on(weights[i]);
      const std::string most = f.x(largest[i]), v = f.x(squares[i]);
      f.write(largest[i], "max(" + most + ", " + v + ")", skip);
    }
    Formula f = formula_on(weights[i]);
    const std::string w = f.x(weights[i]), m = f.x(means[i]), v = f.x(amsgrad ? largest[i] : squares[i]),
                      lr = f.x(rate), step = f.x(steps[i]);
    // 1 - beta^step by expm1: near 0 where beta is near 1.
    const std::string size = lr + " / (-expm1(" + step + " * " + f.s(std::log(beta1)) + "))",
                      root = "sqrt(-expm1(" + step + " * " + f.s(std::log(beta2)) + "))",
                      kept = decoupled && decay != 0 ? w + " * (1 - " + lr + " * " + f.s(decay) + ")" : w;
    f.write(weights[i], kept + " - " + size + " * " + m + " / (sqrt(" + v + ") / " + root + " + " + f.s(eps) + ")",
            skip);
  }
  keep_unscaled(gradients, scale, skip);
  batch.finish();
}

Tensor rate_on(TensorList weights, double rate) {
  return weights.empty() ? Tensor() : number_on(weights[0].device().index(), rate);
}
Tensor rate_on(TensorList weights, const Tensor& rate) {
  return weights.empty() ? Tensor() : rate.to(weights[0].device(), at::kFloat);
}

template <bool kDecoupled, class Rate>
void fused_adam(TensorList weights, TensorList gradients, TensorList means, TensorList squares, TensorList largest,
                TensorList steps, Rate rate, double beta1, double beta2, double decay, double eps, bool amsgrad,
                bool maximize, const MaybeTensor& scale, const MaybeTensor& skip) {
  adam(kDecoupled, weights, gradients, means, squares, largest, steps, rate_on(weights, rate), beta1, beta2, decay, eps,
       amsgrad, maximize, scale, skip);
}

void sgd(TensorList weights, TensorList gradients, TensorList velocities, double decay, double momentum,
         const Tensor& rate, double dampening, bool nesterov, bool maximize, bool first, const MaybeTensor& scale,
         const MaybeTensor& skip) {
  const Gradient gradient{maximize, decay, scale};
  const Tensor factor = factor_of(scale, skip);
  const bool open = numbers_change(weights, {momentum, dampening, decay});
  const Attributes attributes =
      open ? nullptr
           : attributes_of("momentum=" + text_of(momentum) + " dampening=" + text_of(dampening) +
                           " nesterov=" + (nesterov ? "true" : "false") + " weight_decay=" + text_of(decay));
  const auto formula_on = [&](const Tensor& weight) { return open ? Formula(weight.device().index()) : Formula(); };
  Batch batch;
  OnDeviceOf on_device_of;
  const Operand rate_there = operand_or_none(rate), factor_there = operand_or_none(factor);
  for (size_t i = 0; i < weights.size(); ++i) {
    on_device_of(weights[i]);
    if (weights[i].numel() == 0) continue;
    const bool keeps = momentum != 0;
    if (attributes && !maximize && !(keeps && first) && (!keeps || are_alike(weights[i], {&velocities[i]}))) {
      const Operand w = placed_operand_of(weights[i]), v = keeps ? placed_operand_of(velocities[i]) : Operand();
      Operand operands[] = {w, placed_operand_of(gradients[i]), rate_there, v, factor_there, w, v};
      Later::add(weights[i].device().index(), "sgd_step", attributes.get(), operands, 5, keeps ? 2 : 1, attributes);
      continue;
    }
    if (momentum != 0) {
      Formula f = formula_on(weights[i]);
      const std::string g = gradient.of(f, gradients[i], weights[i]);
      f.write(velocities[i],
              first ? g : f.s(momentum) + " * " + f.x(velocities[i]) + " + " + f.s(1 - dampening) + " * " + g, skip);
    }
    Formula f = formula_on(weights[i]);
    const std::string w = f.x(weights[i]), lr = f.x(rate);
    std::string step = momentum != 0 ? f.x(velocities[i]) : gradient.of(f, gradients[i], weights[i]);
    if (momentum != 0 && nesterov)
      step = "(" + gradient.of(f, gradients[i], weights[i]) + " + " + f.s(momentum) + " * " + step + ")";
    f.write(weights[i], w + " - " + lr + " * " + step, skip);
  }
  keep_unscaled(gradients, scale, skip);
  batch.finish();
}

template <class Rate>
void fused_sgd(TensorList weights, TensorList gradients, TensorList velocities, double decay, double momentum,
               Rate rate, double dampening, bool nesterov, bool maximize, bool first, const MaybeTensor& scale,
               const MaybeTensor& skip) {
  sgd(weights, gradients, velocities, decay, momentum, rate_on(weights, rate), dampening, nesterov, maximize, first,
      scale, skip);
}

// found: 1 where a gradient is not finite; gradients are divided by the scale.
void unscale(TensorList gradients, Tensor& found, const Tensor& inverse_scale) {
  std::vector<Handle> held;
  std::vector<pl_tensor> given;
  for (const Tensor& gradient : gradients)
    if (gradient.numel()) given.push_back(held.emplace_back(view_of(gradient)).get());
  const Tensor fine = empty_strided({}, {}, at::kFloat, found.device().index());
  pl_tensor made = view_of(fine).get();
  run_op("all_finite", nullptr, given, &made, 1);
  Formula f;
  const std::string before = f.x(found);
  f.write(found, "(" + f.x(fine) + " == 0 ? 1 : " + before + ")");
  Batch batch;
  for (const Tensor& gradient : gradients) {  // in float32: in float16 the inverse of a large scale is 0
    if (gradient.numel() == 0) continue;
    Formula each;
    each.write(gradient, each.x(gradient) + " * " + each.x(inverse_scale));
  }
  batch.finish();
}

// The scale of losses after a step: less where a gradient was not finite, more after `interval` steps without one.
Tensor& update_scale(Tensor& scale, Tensor& tracker, const Tensor& found, double growth, double backoff,
                     int64_t interval) {
  const c10::DeviceGuard guard(scale.device());
  const Tensor steps = tracker.to(at::kFloat);  // exact: it is at most the interval
  {
    Formula f;
    const std::string s = f.x(scale), grown = s + " * " + f.s(growth), n = f.x(steps);
    f.write(scale, "(" + f.x(found) + " != 0 ? " + s + " * " + f.s(backoff) + " : (" + n +
                       " + 1 == " + f.s(double(interval)) + " && " + grown +
                       " <= " + f.s(std::numeric_limits<float>::max()) + " ? " + grown + " : " + s + "))");
  }
  Formula f;
  const std::string n = f.x(steps);
  f.write(steps, "(" + f.x(found) + " != 0 || " + n + " + 1 == " + f.s(double(interval)) + " ? 0 : " + n + " + 1)");
  tracker.copy_(steps);
  return scale;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_adam_", fused_adam<false, double>);
  m.impl("_fused_adam_.tensor_lr", fused_adam<false, const Tensor&>);
  m.impl("_fused_adamw_", fused_adam<true, double>);
  m.impl("_fused_adamw_.tensor_lr", fused_adam<true, const Tensor&>);
  m.impl("_fused_sgd_", fused_sgd<double>);
  m.impl("_fused_sgd_.tensor_lr", fused_sgd<const Tensor&>);
  m.impl("_amp_foreach_non_finite_check_and_unscale_", unscale);
  m.impl("_amp_update_scale_", update_scale);
}

}  // namespace
}  // namespace ocl
