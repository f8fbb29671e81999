// Copies and sums that may run together with others: how weights that change are brought to packed forms in each run,
// and how the parts of their gradients are added up.
#pragma once

#include <optional>

#include "providers/opencl/pointwise/pointwise_kernel.h"
#include "providers/together.h"

namespace pl::opencl {

// dst[i] = src[i] for every index i of `shape`, zero in dst's padding, by one input and one output of `dtype`; with
// `rounds` f32 numbers to the nearest tf32.  Nothing where the sides share no axes, or are not of what may run
// together.
std::optional<ComputationPlan> plan_joinable_copy(const OpenclDevice& device, const Dims& shape, DType dtype,
                                                  const Addressing& src, const Addressing& dst, bool rounds);

// dst[i] = src[i] + src[i + stride] + ..., of as many parts, in this order, for every index i of `shape`; parts of f32.
std::optional<ComputationPlan> plan_joinable_sum(const OpenclDevice& device, const Dims& shape, const Addressing& src,
                                                 int64_t parts, int64_t stride, DType dtype, const Addressing& dst);

// The same of elements side by side, from element `first` of the workspace on.
std::optional<ComputationPlan> plan_joinable_sum(const OpenclDevice& device, int64_t elements, int64_t first,
                                                 int64_t parts, int64_t stride, DType dtype);

// Launches that leave partial sums in the workspace, and one that adds them up, which others may do later, by
// sums of the workspace that are planned for the last outputs.
class KernelInParts final : public Kernel, public EndsLater {
 public:
  KernelInParts(OpenclDevice& device, std::vector<std::optional<ComputationPlan>> ends)
      : sums(device), join(device), device_(device), ends_(std::move(ends)) {}
  void run(const KernelArguments& arguments) override {
    sums.run(arguments);
    join.run(arguments);
  }
  void begin(const KernelArguments& arguments) override { sums.run(arguments); }
  std::vector<std::unique_ptr<Kernel>> ends() const override {
    std::vector<std::unique_ptr<Kernel>> list;
    for (const std::optional<ComputationPlan>& end : ends_) {
      if (!end) return {};
      list.push_back(prepare_computation(device_, *end));
    }
    return list;
  }
  KernelList sums, join;

 private:
  OpenclDevice& device_;
  std::vector<std::optional<ComputationPlan>> ends_;
};

}  // namespace pl::opencl
