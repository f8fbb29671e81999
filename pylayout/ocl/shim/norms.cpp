// Layer and group norms, forward and backward an op of the library each. PyTorch's own forward keeps statistics, which are
// several ops here, and its gradient is made of as many again.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/group_norm_native.h>
#include <ATen/ops/layer_norm_native.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string>

#include "derivable.h"
#include "random.h"
#include "shim.h"
#include "transforms.h"

namespace ocl {
namespace {

using at::Tensor;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;

// What an op normalises over: the last dimensions, by their sizes, or groups of channels, by their number.
struct Norm {
  c10::IValue over;
  double eps;
  bool by_groups() const { return over.isInt(); }
};

c10::IValue value_of(const Tensor& tensor) { return tensor.defined() ? c10::IValue(tensor) : c10::IValue(); }

// By the op's program, without autograd.
torch::jit::Stack called(const Norm& norm, const char* ending, torch::jit::Stack stack) {
  const std::string name = std::string(norm.by_groups() ? "pylayout::group_norm" : "pylayout::layer_norm") + ending;
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(&stack);
  return stack;
}

Tensor forward_of(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return called(norm, "", {x, norm.over, value_of(weight), value_of(bias), norm.eps}).front().toTensor();
}

Tensor by_pytorch(const Norm& norm, const Tensor& x, const MaybeTensor& weight, const MaybeTensor& bias) {
  if (norm.by_groups()) return at::native::group_norm(x, norm.over.toInt(), weight, bias, norm.eps, true);
  const c10::SymDimVector shape = [&] {
    c10::SymDimVector made;
    for (const int64_t size : norm.over.toIntVector()) made.emplace_back(size);
    return made;
  }();
  return at::native::layer_norm_symint(x, shape, weight, bias, norm.eps, true);
}

MaybeTensor maybe(const Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : std::nullopt; }

struct Normalised : torch::autograd::Function<Normalised> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const MaybeTensor& maybe_weight,
                        const MaybeTensor& maybe_bias, const Norm& norm) {
    const Tensor weight = maybe_weight.value_or(Tensor()), bias = maybe_bias.value_or(Tensor());
    context->save_for_backward({x, weight, bias});
    context->saved_data["over"] = norm.over;
    context->saved_data["eps"] = norm.eps;
    return forward_of(norm, x, weight, bias);
  }
  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& gradients) {
    const Norm norm{context->saved_data["over"], context->saved_data["eps"].toDouble()};
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    variable_list made;
    if (at::GradMode::is_enabled()) {
      made = derivable_gradients(saved, gradients[0], [&](const variable_list& of) {
        return by_pytorch(norm, of[0], maybe(of[1]), maybe(of[2]));
      });
    } else {
      const at::AutoDispatchBelowADInplaceOrView below;
      const torch::jit::Stack all = called(norm, "_backward", {gradients[0], x, norm.over, value_of(weight), norm.eps});
      for (size_t i = 0; i < saved.size(); ++i) made.push_back(saved[i].defined() ? all[i].toTensor() : Tensor());
    }
    made.resize(4);
    return made;
  }
};

bool is_alike(const MaybeTensor& weight, const Tensor& x) {
  return !weight || !weight->defined() || (weight->device() == x.device() && weight->scalar_type() == x.scalar_type());
}

Tensor normalised(const Norm& norm, const Tensor& x, const MaybeTensor& weight, const MaybeTensor& bias) {
  const at::ScalarType dtype = x.scalar_type();
  const bool known = dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16;
  if (!known || x.numel() == 0 || !is_alike(weight, x) || !is_alike(bias, x)) return by_pytorch(norm, x, weight, bias);
  const auto derives = [](const MaybeTensor& tensor) { return tensor && tensor->defined() && tensor->requires_grad(); };
  if (at::GradMode::is_enabled() && (x.requires_grad() || derives(weight) || derives(bias)))
    return Normalised::apply(x, weight, bias, norm);
  return forward_of(norm, x, weight.value_or(Tensor()), bias.value_or(Tensor()));
}

bool has_sizes(const MaybeTensor& tensor, at::IntArrayRef sizes) {
  return !tensor || !tensor->defined() || tensor->sizes() == sizes;
}

Tensor layer_norm(const Tensor& x, c10::SymIntArrayRef sizes, const MaybeTensor& weight, const MaybeTensor& bias,
                  double eps, bool with_cudnn) {
  const bool ours = !is_traced(x) && !is_transformed(x);
  const auto shape = c10::asIntArrayRefSlowOpt(sizes);
  const bool fits = ours && shape && !shape->empty() && x.dim() >= int64_t(shape->size()) &&
                    x.sizes().slice(size_t(x.dim()) - shape->size()) == *shape && has_sizes(weight, *shape) &&
                    has_sizes(bias, *shape);
  if (!fits) return at::native::layer_norm_symint(x, sizes, weight, bias, eps, with_cudnn);
  return normalised({shape->vec(), eps}, x, weight, bias);
}

Tensor group_norm(const Tensor& x, int64_t groups, const MaybeTensor& weight, const MaybeTensor& bias, double eps,
                  bool with_cudnn) {
  const bool ours = !is_traced(x) && !is_transformed(x);
  const bool fits = ours && x.dim() >= 2 && groups > 0 && x.size(1) % groups == 0 && has_sizes(weight, {x.size(1)}) &&
                    has_sizes(bias, {x.size(1)});
  if (!fits) return at::native::group_norm(x, groups, weight, bias, eps, with_cudnn);
  return normalised({groups, eps}, x, weight, bias);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("layer_norm", layer_norm);
  m.impl("group_norm", group_norm);
}

}  // namespace ocl
