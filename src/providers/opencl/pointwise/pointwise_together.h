// Elementwise computations, reorders among them, that may run together (providers/together.h).
#pragma once

#include "providers/opencl/pointwise/pointwise_kernel.h"
#include "providers/together.h"

namespace pl::opencl {

// Whether a computation may be a JoinableKernel: over few axes, without reductions.
bool is_joinable(const ComputationPlan& plan);

// What a computation does to each element, as text that many like it share.
class JoinableWork {
 public:
  JoinableWork(OpenclDevice& device, const ComputationPlan& plan);
  const std::string& alike() const { return alike_; }
  size_t most() const;
  // Adds the launch that does all works, which are alike, on arguments that share memory so.
  void add_launch(KernelList& list, const std::vector<std::shared_ptr<const JoinableWork>>& works,
                  const Sharing& shared) const;
  // What of it a launch can use: outputs of the same type as the inputs where they lie.
  Sharing usable(Sharing shared) const;
  const ComputationPlan& plan() const { return plan_; }
  size_t inputs() const { return plan_.computation.inputs.size(); }
  size_t outputs() const { return plan_.computation.outputs.size(); }

 private:
  bool real() const { return plan_.computation.program.arithmetic == pointwise::Arithmetic::f32; }
  bool sums() const { return plan_.computation.parts > 1; }
  const char* type() const { return real() ? "float" : "long"; }
  size_t numbers() const;  // in a work's row of the table
  void add_numbers(std::vector<cl_int>& table) const;
  std::string text(size_t works, int64_t group, const Sharing& shared) const;
  std::string find_places() const;

  OpenclDevice& device_;
  ComputationPlan plan_;
  bool flat_;                 // each tensor is one run of elements, or one element for all of them
  std::vector<bool> single_;  // inputs that are one element
  std::string body_;          // statements, and stores of one element
  std::string alike_;
};

// The launches of a computation, with what it takes to run others like it with it.
class JoinableKernel final : public KernelList, public Together {
 public:
  JoinableKernel(OpenclDevice& device, const ComputationPlan& plan)
      : KernelList(device), device_(device), work_(std::make_shared<JoinableWork>(device, plan)) {}
  const std::string& alike() const override { return work_->alike(); }
  size_t most() const override { return work_->most(); }
  const ComputationPlan& plan() const { return work_->plan(); }
  std::unique_ptr<Kernel> together(const std::vector<const Together*>& kernels, const Sharing& shared) const override;
  // Adds the launch that does its work by the text of those that run together.
  void add_own() { work_->add_launch(*this, {work_}, {}); }

 private:
  OpenclDevice& device_;
  std::shared_ptr<const JoinableWork> work_;
};

}  // namespace pl::opencl
