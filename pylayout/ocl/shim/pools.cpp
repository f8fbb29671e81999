// Max pooling, whose gradient is computed from its input in the place of indices.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "shim.h"
#include "transforms.h"

namespace ocl {
namespace {

// Kernel, stride, padding and dilation, each with a number for every dimension.
struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil_mode;
};

std::vector<int64_t> for_all(c10::IntArrayRef sizes, size_t rank) {
  return sizes.size() == 1 ? std::vector<int64_t>(rank, sizes[0]) : sizes.vec();
}

// By the op's program, without autograd.
at::Tensor called(const char* name, const std::vector<at::Tensor>& tensors, const Window& window) {
  const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  torch::jit::Stack stack(tensors.begin(), tensors.end());
  for (const auto* sizes : {&window.kernel, &window.stride, &window.padding, &window.dilation})
    stack.emplace_back(*sizes);
  stack.emplace_back(window.ceil_mode);
  op.callBoxed(&stack);
  return stack.front().toTensor();
}

struct MaxPool : torch::autograd::Function<MaxPool> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const char* op,
                            const Window& window) {
    context->save_for_backward({x});
    context->saved_data["kernel"] = window.kernel;
    context->saved_data["stride"] = window.stride;
    context->saved_data["padding"] = window.padding;
    context->saved_data["dilation"] = window.dilation;
    context->saved_data["ceil_mode"] = window.ceil_mode;
    const at::AutoDispatchBelowADInplaceOrView below;
    return called(op, {x}, window);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto numbers = [&](const char* name) { return context->saved_data[name].toIntVector(); };
    const Window window{numbers("kernel"), numbers("stride"), numbers("padding"), numbers("dilation"),
                        context->saved_data["ceil_mode"].toBool()};
    const at::Tensor x = context->get_saved_variables()[0];
    std::optional<at::AutoDispatchBelowADInplaceOrView> below;
    if (!at::GradMode::is_enabled()) below.emplace();  // no gradient of the gradient is asked for
    return {called("pylayout::max_pool_backward", {gradients[0], x}, window), at::Tensor(), at::Tensor()};
  }
};

at::Tensor pool(const char* op, size_t rank, const at::Tensor& x, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil_mode) {
  const Window window{for_all(kernel, rank), for_all(stride.empty() ? kernel : stride, rank), for_all(padding, rank),
                      for_all(dilation, rank), ceil_mode};
  if (at::GradMode::is_enabled() && x.requires_grad()) return MaxPool::apply(x, op, window);
  const at::AutoDispatchBelowADInplaceOrView below;
  return called(op, {x}, window);
}

at::Tensor max_pool2d(const at::Tensor& x, c10::IntArrayRef kernel, c10::IntArrayRef stride, c10::IntArrayRef padding,
                      c10::IntArrayRef dilation, bool ceil_mode) {
  if (is_transformed(x))
    return std::get<0>(at::max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil_mode));
  return pool("aten::max_pool2d", 2, x, kernel, stride, padding, dilation, ceil_mode);
}

at::Tensor max_pool3d(const at::Tensor& x, c10::IntArrayRef kernel, c10::IntArrayRef stride, c10::IntArrayRef padding,
                      c10::IntArrayRef dilation, bool ceil_mode) {
  if (is_transformed(x))
    return std::get<0>(at::max_pool3d_with_indices(x, kernel, stride, padding, dilation, ceil_mode));
  return pool("aten::max_pool3d", 3, x, kernel, stride, padding, dilation, ceil_mode);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("max_pool2d", max_pool2d);
  m.impl("max_pool3d", max_pool3d);
}

}  // namespace ocl
