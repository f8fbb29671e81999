// selective_scan (kernels/selective_scan/selective_scan.cl).
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing y = as_rows(candidate.outputs[0], {1, 2});
  KernelSource source("selective_scan/selective_scan.cl");
  source.tensor("SRC", as_rows(candidate.inputs[0], {1, 2})).tensor("DELTA", as_rows(candidate.inputs[1], {1, 2}));
  source.tensor("RATES", as_rows(candidate.inputs[2], {0, 1})).tensor("TAKEN", as_rows(candidate.inputs[3], {1, 2}));
  source.tensor("GIVEN", as_rows(candidate.inputs[4], {1, 2})).tensor("DST", y);
  source.define("STATES", op.in(2).shape[1]);
  const int64_t channels = y.places() / y.padded(7);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "selective_scan").input(0, "SRC").input(1, "DELTA").input(2, "RATES");
  launch.input(3, "TAKEN").input(4, "GIVEN").output(0, "DST").index(channels);
  launch.global({size_t(channels)}).local({32});
  return kernel;
}

void list_scan(const Op& op, OpenclDevice& device, CandidateList& out) {
  constexpr int64_t kMostStates = 256;  // beyond them a work-item's arrays of states no longer fit its memory
  const int64_t states = op.in(2).shape[1];
  if (states < 1 || states > kMostStates)
    return out.refuse("opencl", concat("selective_scan: ", states, " states, expected 1 to ", kMostStates));
  add_per_layout(op, "selective_scan", out, [&](Candidate& candidate) {
    for (int i = 2; i < 5; ++i) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("selective_scan", list_scan);

}  // namespace
}  // namespace pl::opencl
