// rotary_embedding (kernels/attention/rotary_rows.cl).
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/attention/heads.h"
#include "providers/opencl/pointwise/pointwise_axes.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int last = op.in(0).rank() - 1;
  const auto rows_of = [&](const Addressing& from) { return as_rows(from, {last}); };
  const Addressing dst = rows_of(Addressing(candidate.outputs[0]));
  Dims tables = op.in(0).shape;
  tables[last] = op.in(1).shape[op.in(1).rank() - 1];
  KernelSource source("attention/rotary_rows.cl");
  source.tensor("SRC", rows_of(Addressing(candidate.inputs[0]))).tensor("DST", dst);
  source.tensor("COSINES", rows_of(broadcast_to(candidate.inputs[1], tables)));
  source.tensor("SINES", rows_of(broadcast_to(candidate.inputs[2], tables)));
  source.define("TURNED", tables[last]);
  const int64_t places = dst.places();
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "rotary_rows").input(0, "SRC").input(1, "COSINES").input(2, "SINES");
  launch.output(0, "DST").index(places);
  launch.global({size_t(places)}).local({64});
  return kernel;
}

void list_rotary(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "rotary_rows", out, [&](Candidate& candidate) {
    candidate.inputs[0] = as_it_lies(op.in(0), candidate.inputs[0].layout);
    for (int i = 1; i < 3; ++i) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("rotary_embedding", list_rotary);

}  // namespace
}  // namespace pl::opencl
