// The kernels of layer_norm, with what another kernel needs to normalise rows where it reads them.
#pragma once

#include <optional>

#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

// dst = src / sqrt(mean of src^2 + eps) * weight, for rows of so many terms side by side.
struct RowNorm {
  int64_t terms = 0;
  double eps = 0;
  DType dtype = DType::f32;  // of the source and the result
  bool weighted = false;
  DType weight = DType::f32;
};

// Nothing: it is another norm, or rows lie otherwise.
std::optional<RowNorm> row_norm(const Op& op, const Candidate& candidate);

class NormKernel final : public KernelList {
 public:
  NormKernel(OpenclDevice& device, const Op& op, const Candidate& candidate)
      : KernelList(device), norm_(row_norm(op, candidate)) {}
  const std::optional<RowNorm>& norm() const { return norm_; }

 private:
  const std::optional<RowNorm> norm_;
};

}  // namespace pl::opencl
