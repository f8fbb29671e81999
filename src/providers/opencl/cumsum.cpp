// cumsum (kernels/cumsum/).
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/rows.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int dim = int(op.attributes.integer("dim"));
  const Addressing dst = as_rows(candidate.outputs[0], {dim});
  KernelSource source("cumsum/cumsum_rows.cl");
  source.tensor("SRC", as_rows(candidate.inputs[0], {dim})).tensor("DST", dst);
  const int64_t rows = dst.places() / dst.padded(7);
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "cumsum_rows").input(0, "SRC").output(0, "DST").index(rows).global({size_t(rows)}).local({64});
  return kernel;
}

void list_cumsum(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!is_floating(op.in(0).dtype)) return out.refuse("opencl", "cumsum: the kernel sums in f32");
  add_per_layout(op, "cumsum_rows", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.05;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("cumsum", list_cumsum);

}  // namespace
}  // namespace pl::opencl
