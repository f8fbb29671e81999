// Elementwise computations, reorders among them, that may run together (providers/together.h).
#pragma once

#include "providers/opencl/pointwise/pointwise_kernel.h"
#include "providers/together.h"

namespace pl::opencl {

// Whether a computation may be a JoinableKernel: over few axes, without reductions.
bool is_joinable(const ComputationPlan& plan);

// The launches of a computation, with what it takes to run others like it with it.
class JoinableKernel final : public KernelList, public Together {
 public:
  JoinableKernel(OpenclDevice& device, const ComputationPlan& plan);
  const std::string& alike() const override { return alike_; }
  size_t most() const override;
  std::unique_ptr<Kernel> together(const std::vector<const Together*>& kernels) const override;
  // Adds the launch that does its work by the text of those that run together.
  void add_own() { add_launch(*this, {this}); }

 private:
  bool real() const { return plan_.computation.program.arithmetic == pointwise::Arithmetic::f32; }
  bool sums() const { return plan_.computation.parts > 1; }
  const char* type() const { return real() ? "float" : "long"; }
  void add_launch(KernelList& list, const std::vector<const Together*>& kernels) const;
  size_t inputs() const { return plan_.computation.inputs.size(); }
  size_t outputs() const { return plan_.computation.outputs.size(); }
  size_t numbers() const;  // in a kernel's row of the table
  void add_numbers(std::vector<cl_int>& table) const;
  std::string text(size_t kernels, int64_t group) const;
  std::string find_places() const;

  OpenclDevice& device_;
  ComputationPlan plan_;
  bool flat_;                 // each tensor is one run of elements, or one element for all of them
  std::vector<bool> shared_;  // inputs that are one element
  std::string body_;          // statements, and stores of one element
  std::string alike_;
};

}  // namespace pl::opencl
