// concat: one copy for each input (kernels/concat/).
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int dim = int(op.attributes.integer("dim"));
  const Addressing dst(candidate.outputs[0]);
  auto kernel = std::make_unique<KernelList>(device);
  add_zero_padding(*kernel, dst);
  int64_t shift = 0;
  for (size_t i = 0; i < candidate.inputs.size(); ++i) {
    const Addressing src(candidate.inputs[i]);
    KernelSource source("concat/concat_copy.cl");
    source.tensor("SRC", src).tensor("DST", dst);
    source.define("DST_SHIFTED",
                  offset_text("DST", dst.rank, [&](int d) { return own_index(d) + (d == dim ? " + shift" : ""); }));
    Launch& launch = kernel->add(source, "concat_copy").input(int(i), "SRC").output(0, "DST").index(shift);
    over_places(launch, src);
    shift += src.dims[size_t(dim)];
  }
  return kernel;
}

void list_concat(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "concat_copy", out, [&](Candidate& candidate) {
    for (size_t i = 0; i < candidate.inputs.size(); ++i)
      candidate.inputs[i] = op.in(int(i)).with_layout(candidate.outputs[0].layout);
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("concat", list_concat);

}  // namespace
}  // namespace pl::opencl
