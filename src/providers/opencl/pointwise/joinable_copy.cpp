#include "providers/opencl/pointwise/joinable_copy.h"

#include "providers/opencl/pointwise/pointwise_together.h"

namespace pl::opencl {

namespace {

std::optional<ComputationPlan> plan_joinable(const OpenclDevice& device, const char* name, const Dims& shape,
                                             DType from, const Addressing& src, DType to, const Addressing& dst,
                                             bool rounds, int64_t parts, int64_t stride) {
  Computation computation;
  computation.name = name;
  computation.program = pointwise::parse("copy", "y0 = x0", "", 1, 0, pointwise::Arithmetic::f32);
  computation.rounds = rounds;
  computation.parts = parts;
  computation.part_stride = stride;
  computation.space = shape;
  computation.reduced.assign(size_t(shape.size()), false);
  computation.inputs = {{from, src}};
  computation.outputs = {{to, dst}};
  ComputationPlan plan;
  std::string reason;
  if (!plan_computation(device, std::move(computation), plan, reason) || !is_joinable(plan)) return std::nullopt;
  return plan;
}

}  // namespace

std::optional<ComputationPlan> plan_joinable_copy(const OpenclDevice& device, const Dims& shape, DType dtype,
                                                  const Addressing& src, const Addressing& dst, bool rounds) {
  return plan_joinable(device, "joinable_copy", shape, dtype, src, dtype, dst, rounds, 1, 0);
}

std::optional<ComputationPlan> plan_joinable_sum(const OpenclDevice& device, const Dims& shape, const Addressing& src,
                                                 int64_t parts, int64_t stride, DType dtype, const Addressing& dst) {
  return plan_joinable(device, "joinable_sum", shape, DType::f32, src, dtype, dst, false, parts, stride);
}

std::optional<ComputationPlan> plan_joinable_sum(const OpenclDevice& device, int64_t elements, int64_t first,
                                                 int64_t parts, int64_t stride, DType dtype) {
  const TensorDesc flat = TensorDesc::dense(DType::f32, {elements});
  Addressing from(flat);
  from.offset = first;
  return plan_joinable_sum(device, flat.shape, from, parts, stride, dtype, Addressing(flat));
}

}  // namespace pl::opencl
