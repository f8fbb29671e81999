// Transforms of torch.func and forward-mode gradients, which know no gradients written in C++.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace ocl {

// Whether an op on x is to be made of PyTorch's own ops, which have these.
inline bool is_transformed(const at::Tensor& x) {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerBackMode) ||
         x._fw_grad(0).defined();
}

}  // namespace ocl
