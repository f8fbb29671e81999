// Expressions of the library's op `pointwise` on PyTorch's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "shim.h"

namespace ocl {

using MaybeTensor = std::optional<at::Tensor>;

// An expression over tensors of one shape, or of one element.
class Formula {
 public:
  Formula() = default;
  // Of which numbers change: they are read by the kernel, from this device.
  explicit Formula(c10::DeviceIndex open_on) : open_on_(open_on) {}
  // The name by which the expression reads a tensor, or has a number.
  std::string x(const at::Tensor& tensor);
  std::string s(double value);
  // Writes `text` into a tensor, or leaves that as it is where `skip` is not 0. Within a Batch it waits.
  void write(const at::Tensor& target, std::string text, const MaybeTensor& skip = std::nullopt);

 private:
  std::optional<c10::DeviceIndex> open_on_;
  std::vector<at::Tensor> tensors_;
  std::string scalars_;
  int count_ = 0;
};

// Attributes by their text, parsed once; the last texts are kept.
using Attributes = std::shared_ptr<std::remove_pointer_t<pl_attributes>>;
Attributes attributes_of(const std::string& text);

}  // namespace ocl
