#include "dispatch/cost_model.h"

#include <algorithm>

namespace pl {
namespace {

// What lies in the caches is read faster than the rate of a copy says.
constexpr double kMostEfficient = 2;

}  // namespace

double bytes_of(const Op& op) {
  double bytes = 0;
  for (const auto* list : {&op.inputs, &op.outputs})
    for (const TensorDesc& desc : *list)
      if (desc.present) bytes += double(desc.padded_elements()) * double(size_of(desc.dtype));
  return bytes;
}

double flops_of(const Op& op) {
  if (op.schema->flops) return op.schema->flops(op);
  double elements = 0;
  for (const TensorDesc& desc : op.outputs) elements += double(desc.elements());
  return elements;
}

double estimate_ms(const Op& op, const Candidate& candidate, const Rates& rates) {
  if (candidate.busy_ms > 0)
    return rates.overhead_ms + candidate.start_ms + std::max(candidate.busy_ms, bytes_of(op) / rates.bytes_per_ms);
  // A reference loop reaches about a hundredth of the hardware's rate.
  const double efficiency = candidate.reference ? 0.01 : std::clamp(candidate.efficiency, 1e-3, kMostEfficient);
  const double flops = candidate.flops > 0 ? candidate.flops : flops_of(op);
  const double roofline = std::max(flops / rates.flops_per_ms, bytes_of(op) / rates.bytes_per_ms);
  // A packed form that is larger than the constant is read, too.
  double more_bytes = candidate.more_bytes;
  for (const Packing& packing : candidate.packings) {
    const TensorDesc& constant = op.inputs[size_t(packing.input)];
    more_bytes += std::max(0.0, double(packing.bytes) - double(constant.elements()) * double(size_of(constant.dtype)));
  }
  return rates.overhead_ms + candidate.start_ms + roofline / efficiency + more_bytes / rates.bytes_per_ms;
}

double estimate_ms(const Candidate& candidate, const Packing& packing, const Rates& rates, bool launched) {
  const size_t bytes = candidate.inputs[size_t(packing.input)].size_bytes() + packing.bytes;
  return (launched ? rates.overhead_ms : 0) + double(bytes) / rates.bytes_per_ms;
}

}  // namespace pl
