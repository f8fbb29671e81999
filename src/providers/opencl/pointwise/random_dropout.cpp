// random_dropout (kernels/random_dropout/).
#include <cmath>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing dst(candidate.outputs[0]);
  const double p = op.attributes.number("p");
  KernelSource source("random_dropout/random_dropout_direct.cl");
  source.tensor("SRC", candidate.inputs[0]).tensor("DST", dst);
  std::string number = "(ulong)0";
  for (int dim = 0; dim < dst.rank; ++dim) number = concat("(", number, " * DST_DIM(", dim, ") + i##", dim, ")");
  source.define("NUMBER_OF(i)", number);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "random_dropout_direct").input(0, "SRC").input(1).output(0, "DST");
  over_places(launch.scalar(cl_ulong(std::ceil(p * 4294967296.0))).scalar(cl_float(1 / (1 - p))), dst);
  return kernel;
}

void list_random_dropout(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "random_dropout_direct", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("random_dropout", list_random_dropout);

}  // namespace
}  // namespace pl::opencl
