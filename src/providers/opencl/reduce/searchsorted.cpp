// searchsorted: a work-item a value (kernels/searchsorted/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op) {
  const TensorDesc &sequence = op.in(0), &values = op.in(1);
  const int64_t n = sequence.shape[sequence.rank() - 1], count = values.elements();
  const int64_t rows = n ? sequence.elements() / n : 1;
  KernelSource source("searchsorted/searchsorted_halves.cl");
  source.define("SEQUENCE_DTYPE", name_of(sequence.dtype)).define("RIGHT", int64_t(op.attributes[attr::right]));
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "searchsorted_halves")
      .input(0)
      .input(1)
      .output(0)
      .scalar(cl_uint(n))
      .scalar(cl_uint(rows > 1 ? count / rows : count))
      .scalar(cl_uint(count))
      .global({size_t((count + 63) / 64 * 64)})
      .local({64});
  return kernel;
}

void list_searchsorted(const Op& op, OpenclDevice& device, CandidateList& out) {
  Candidate candidate = make_candidate(op, "searchsorted_halves");
  for (TensorDesc& input : candidate.inputs) input = input.with_layout(Layout::plain(input.rank()));
  candidate.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
  if (!narrow(Addressing(candidate.inputs[0])) || !narrow(Addressing(candidate.outputs[0])))
    return out.refuse("opencl", "searchsorted: needs indices of more than 31 bits");
  candidate.efficiency = 0.3;
  candidate.prepare = [&device, op] { return prepare(device, op); };
  out.add(std::move(candidate));
}
PL_OPENCL_OP("searchsorted", list_searchsorted);

}  // namespace
}  // namespace pl::opencl
