// The fused steps of optimizers (torch.optim's fused=True), and what GradScaler needs: a kernel for each tensor that
// changes, which is written where it lies.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <torch/library.h>

#include <cmath>

#include "formula.h"
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

void adam(bool decoupled, TensorList weights, TensorList gradients, TensorList means, TensorList squares,
          TensorList largest, TensorList steps, const Tensor& rate, double beta1, double beta2, double decay,
          double eps, bool amsgrad, bool maximize, const MaybeTensor& scale, const MaybeTensor& skip) {
  const Gradient gradient{maximize, decoupled ? 0 : decay, scale};
  for (size_t i = 0; i < weights.size(); ++i) {
    const c10::DeviceGuard guard(weights[i].device());
    {
      Formula f;
      const std::string g = gradient.of(f, gradients[i], weights[i]), m = f.x(means[i]);
      f.write(means[i], f.s(beta1) + " * " + m + " + " + f.s(1 - beta1) + " * " + g, skip);
    }
    {
      Formula f;
      const std::string g = gradient.of(f, gradients[i], weights[i]), v = f.x(squares[i]);
      f.write(squares[i], f.s(beta2) + " * " + v + " + " + f.s(1 - beta2) + " * " + g + " * " + g, skip);
    }
    if (amsgrad) {
      Formula f;
      const std::string most = f.x(largest[i]), v = f.x(squares[i]);
      f.write(largest[i], "max(" + most + ", " + v + ")", skip);
    }
    Formula f;
    const std::string w = f.x(weights[i]), m = f.x(means[i]), v = f.x(amsgrad ? largest[i] : squares[i]),
                      lr = f.x(rate), step = f.x(steps[i]);
    // 1 - beta^step by expm1: near 0 where beta is near 1.
    const std::string size = lr + " / (-expm1(" + step + " * " + f.s(std::log(beta1)) + "))",
                      root = "sqrt(-expm1(" + step + " * " + f.s(std::log(beta2)) + "))",
                      kept = decoupled && decay != 0 ? w + " * (1 - " + lr + " * " + f.s(decay) + ")" : w;
    f.write(weights[i], kept + " - " + size + " * " + m + " / (sqrt(" + v + ") / " + root + " + " + f.s(eps) + ")",
            skip);
  }
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
  for (size_t i = 0; i < weights.size(); ++i) {
    const c10::DeviceGuard guard(weights[i].device());
    if (momentum != 0) {
      Formula f;
      const std::string g = gradient.of(f, gradients[i], weights[i]);
      f.write(velocities[i],
              first ? g : f.s(momentum) + " * " + f.x(velocities[i]) + " + " + f.s(1 - dampening) + " * " + g, skip);
    }
    Formula f;
    const std::string w = f.x(weights[i]), lr = f.x(rate);
    std::string step = momentum != 0 ? f.x(velocities[i]) : gradient.of(f, gradients[i], weights[i]);
    if (momentum != 0 && nesterov)
      step = "(" + gradient.of(f, gradients[i], weights[i]) + " + " + f.s(momentum) + " * " + step + ")";
    f.write(weights[i], w + " - " + lr + " * " + step, skip);
  }
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
  for (const Tensor& gradient : gradients) {
    if (gradient.numel() == 0) continue;
    const Tensor bad = at::ne(at::mul(gradient, 0), 0).to(found.scalar_type()).amax();
    found.copy_(at::maximum(found, bad.expand_as(found)));
    Tensor(gradient).mul_(inverse_scale);
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_adam_", fused_adam<false, double>);
  m.impl("_fused_adam_.tensor_lr", fused_adam<false, const Tensor&>);
  m.impl("_fused_adamw_", fused_adam<true, double>);
  m.impl("_fused_adamw_.tensor_lr", fused_adam<true, const Tensor&>);
  m.impl("_fused_sgd_", fused_sgd<double>);
  m.impl("_fused_sgd_.tensor_lr", fused_sgd<const Tensor&>);
  m.impl("_amp_foreach_non_finite_check_and_unscale_", unscale);
}

}  // namespace
}  // namespace ocl
