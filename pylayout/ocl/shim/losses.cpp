// Cross entropy with classes given by number, whose loss and gradient are an op of the library each.
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss_native.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "derivable.h"
#include "shim.h"
#include "transforms.h"

namespace ocl {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

struct Options {
  int64_t reduction;
  int64_t ignore_index;
  double smoothing;
};

// By the op's program, without autograd.
Tensor called(const char* name, std::initializer_list<Tensor> tensors, const Tensor& weight, const Options& options) {
  const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  torch::jit::Stack stack(tensors.begin(), tensors.end());
  stack.emplace_back(weight.defined() ? c10::IValue(weight) : c10::IValue());
  static const char* const names[] = {"none", "mean", "sum"};
  stack.emplace_back(std::string(names[options.reduction]));
  stack.emplace_back(options.ignore_index);
  stack.emplace_back(options.smoothing);
  op.callBoxed(&stack);
  return stack.front().toTensor();
}

Tensor by_pytorch(const Tensor& x, const Tensor& target, const MaybeTensor& weight, const Options& options) {
  return at::native::cross_entropy_loss_symint(x, target, weight, options.reduction, c10::SymInt(options.ignore_index),
                                               options.smoothing);
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& target,
                        const MaybeTensor& maybe, const Options& options) {
    const Tensor weight = maybe ? *maybe : Tensor();
    context->save_for_backward({x, target, weight});
    context->saved_data["reduction"] = options.reduction;
    context->saved_data["ignore_index"] = options.ignore_index;
    context->saved_data["smoothing"] = options.smoothing;
    const at::AutoDispatchBelowADInplaceOrView below;
    return called("pylayout::cross_entropy", {x, target}, weight, options);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const Options options{context->saved_data["reduction"].toInt(), context->saved_data["ignore_index"].toInt(),
                          context->saved_data["smoothing"].toDouble()};
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &target = saved[1], &weight = saved[2];
    if (at::GradMode::is_enabled()) {
      const MaybeTensor maybe = weight.defined() ? MaybeTensor(weight) : std::nullopt;
      const auto loss = [&](const auto& of) { return by_pytorch(of[0], target, maybe, options); };
      return {derivable_gradients({x}, gradients[0], loss)[0], Tensor(), Tensor(), Tensor()};
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    return {called("pylayout::cross_entropy_backward", {gradients[0], x, target}, weight, options), Tensor(), Tensor(),
            Tensor()};
  }
};

// Sizes may be symbols of a graph that is traced.
bool suits(const Tensor& x, const Tensor& target, const MaybeTensor& weight) {
  if (x.dim() < 2 || target.dim() != x.dim() - 1 || target.scalar_type() != at::kLong || x.sym_numel() == 0)
    return false;
  if (!c10::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kDouble) return false;
  if (target.device() != x.device() || target.sym_size(0) != x.sym_size(0)) return false;
  for (int64_t dim = 2; dim < x.dim(); ++dim)
    if (target.sym_size(dim - 1) != x.sym_size(dim)) return false;
  if (!weight || !weight->defined()) return true;
  return weight->device() == x.device() && weight->scalar_type() == x.scalar_type() && weight->dim() == 1 &&
         weight->sym_size(0) == x.sym_size(1) && !weight->requires_grad();
}

Tensor cross_entropy(const Tensor& x, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
                     c10::SymInt ignore_index, double smoothing) {
  const Options options{reduction, ignore_index.expect_int(), smoothing};
  if (at::autocast::is_autocast_enabled(kDevice) || !suits(x, target, weight) || is_transformed(x) || smoothing < 0 ||
      smoothing > 1 || reduction < 0 || reduction > 2)
    return by_pytorch(x, target, weight, options);
  if (at::GradMode::is_enabled() && x.requires_grad()) return CrossEntropy::apply(x, target, weight, options);
  const at::AutoDispatchBelowADInplaceOrView below;
  return called("pylayout::cross_entropy", {x, target}, weight ? *weight : Tensor(), options);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("cross_entropy_loss", cross_entropy); }

}  // namespace ocl
