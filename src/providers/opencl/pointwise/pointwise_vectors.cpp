#include "providers/opencl/pointwise/pointwise_vectors.h"

#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/pointwise/pointwise_text.h"

namespace pl::opencl {

int vector_of(const OpenclDevice& device, int64_t size) {
  return device.capabilities().native_vector_float >= 16 && size >= 16 ? 16 : 8;
}

bool in_one_access(const Iteration& it, size_t tensor, DType dtype, int count) {
  bool whole = (count == 4 || count == 8) && has_quads(dtype) && it.kept.back().strides[tensor] == 1;
  for (size_t i = 0; i + 1 < it.kept.size(); ++i) whole = whole && it.kept[i].strides[tensor] % count == 0;
  return whole && it.offsets[tensor] % count == 0;
}

bool in_octs(const ComputationPlan& plan) {
  const Iteration& it = plan.iteration;
  const size_t inputs = plan.computation.inputs.size();
  if (it.kept.back().size % 8) return false;
  for (size_t t = 0; t < it.offsets.size(); ++t) {
    const DType dtype = t < inputs ? plan.computation.inputs[t].dtype : plan.computation.outputs[t - inputs].dtype;
    if (it.kept.back().strides[t] != 0 && (size_of(dtype) != 2 || !in_one_access(it, t, dtype, 8))) return false;
  }
  return true;
}

bool whole_vectors(const OpenclDevice& device, const ComputationPlan& plan) {
  const Axis& inner = plan.iteration.kept.back();
  bool whole = device.capabilities().cpu && plan.computation.program.arithmetic == pointwise::Arithmetic::f32 &&
               inner.size >= 8 && suits_vectors(plan.computation.program.elements);
  for (size_t t = 0; t < inner.strides.size(); ++t)
    whole = whole && (inner.strides[t] == 1 || (inner.strides[t] == 0 && t < plan.computation.inputs.size()));
  for (const auto* operands : {&plan.computation.inputs, &plan.computation.outputs})
    for (const Operand& operand : *operands) whole = whole && has_quads(operand.dtype);
  // Where channels are padded to whole blocks: a vector is a block of the output, and of each tensor that has
  // neighbours.
  if (plan.iteration.kept_checks.empty() || !whole) return whole;
  const Check& check = plan.iteration.kept_checks[0];
  whole = plan.iteration.kept_checks.size() == 1 && check.stored &&
          size_t(check.inner) + 1 == plan.iteration.kept.size() && inner.size == check.block &&
          inner.size == vector_of(device, inner.size) && check.limit < (int64_t(1) << 31);
  for (const auto* operands : {&plan.computation.inputs, &plan.computation.outputs})
    for (const Operand& operand : *operands) {
      const std::vector<Addressing::Inner>& blocks = operand.addressing.inner;
      const size_t tensor = size_t(&operand - operands->data()) +
                            (operands == &plan.computation.outputs ? plan.computation.inputs.size() : 0);
      if (inner.strides[tensor] == 1)
        whole = whole && !blocks.empty() && blocks.back().stride == 1 && blocks.back().size == check.block;
    }
  return whole;
}

}  // namespace pl::opencl
