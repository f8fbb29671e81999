// Expressions of the library's op `pointwise` on PyTorch's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "shim.h"

namespace ocl {

using MaybeTensor = std::optional<at::Tensor>;

// An expression over tensors of one shape, or of one element.
class Formula {
 public:
  // The name by which the expression reads a tensor, or a number that stays the same.
  std::string x(const at::Tensor& tensor);
  std::string s(double value);
  // Writes `text` into a tensor, or leaves that as it is where `skip` is not 0. Within a Batch it waits.
  void write(const at::Tensor& target, std::string text, const MaybeTensor& skip = std::nullopt);

 private:
  std::vector<at::Tensor> tensors_;
  std::string scalars_;
  int count_ = 0;
};

// Attributes by their text, parsed once; of few texts, which are kept.
pl_attributes attributes_of(const std::string& text);

}  // namespace ocl
