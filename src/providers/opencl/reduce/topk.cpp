// topk (kernels/topk/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/reduce/row_sort.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

void list_topk(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  const int dim = int(op.attributes[attr::dim]);
  const int64_t size = x.shape[dim];
  const RowSort sort(x.dtype, x.elements() / size, size, op.attributes[attr::k], op.attributes[attr::largest]);
  if (!sort.possible())
    return out.refuse("opencl", concat("topk: x has shape ", x.shape, ", expected less than 2^31 elements, and 2^27 ",
                                       "along dimension ", dim));
  add_per_layout(op, "topk_tiles", out, [&](Candidate& candidate) {
    candidate.efficiency = device.capabilities().cpu ? 0.01 : 0.1;
    candidate.workspace_bytes = sort.workspace_bytes();
    candidate.prepare = [&device, sort, dim, candidate, skip = int64_t(op.attributes[attr::skip])] {
      auto kernel = std::make_unique<KernelList>(device);
      add_zero_padding(*kernel, Addressing(candidate.outputs[0]), 0);
      add_zero_padding(*kernel, Addressing(candidate.outputs[1]), 1);
      const Addressing values = as_rows(candidate.outputs[0], {dim}), indices = as_rows(candidate.outputs[1], {dim});
      sort.add(*kernel, device, as_rows(candidate.inputs[0], {dim}), {values, indices, skip});
      return kernel;
    };
    return true;
  });
}

PL_OPENCL_OP("topk", list_topk);

}  // namespace
}  // namespace pl::opencl
