#include "providers/opencl/pointwise/joinable_copy.h"

#include "providers/opencl/pointwise/pointwise_together.h"

namespace pl::opencl {

std::optional<ComputationPlan> plan_joinable_copy(const OpenclDevice& device, const Dims& shape, DType dtype,
                                                  const Addressing& src, const Addressing& dst, bool rounds) {
  Computation computation;
  computation.name = "joinable_copy";
  computation.program = pointwise::parse("copy", "y0 = x0", "", 1, 0, pointwise::Arithmetic::f32);
  computation.rounds = rounds;
  computation.space = shape;
  computation.reduced.assign(size_t(shape.size()), false);
  computation.inputs = {{dtype, src}};
  computation.outputs = {{dtype, dst}};
  ComputationPlan plan;
  std::string reason;
  if (!plan_computation(device, std::move(computation), plan, reason) || !is_joinable(plan)) return std::nullopt;
  return plan;
}

}  // namespace pl::opencl
