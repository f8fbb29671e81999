// Elementwise computations of dense tensors in one order of memory, which may run together (providers/together.h).
#pragma once

#include "providers/opencl/pointwise/pointwise_kernel.h"
#include "providers/together.h"

namespace pl::opencl {

// Whether every tensor is one run of elements, or one element for all of them.
bool is_flat(const ComputationPlan& plan);

// The launches of a flat computation, with what it takes to run others like it with it.
class FlatKernel final : public KernelList, public Together {
 public:
  FlatKernel(OpenclDevice& device, const ComputationPlan& plan);
  const std::string& alike() const override { return alike_; }
  size_t most() const override;
  std::unique_ptr<Kernel> together(const std::vector<const Together*>& kernels) const override;

 private:
  bool shared(size_t input) const { return plan_.iteration.kept[0].strides[input] == 0; }
  size_t inputs() const { return plan_.computation.inputs.size(); }
  size_t outputs() const { return plan_.computation.outputs.size(); }
  std::string text(size_t kernels, int64_t group) const;

  OpenclDevice& device_;
  ComputationPlan plan_;
  std::string body_;  // statements, and stores of the element `at`
  std::string alike_;
};

}  // namespace pl::opencl
