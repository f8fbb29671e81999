// batch_norm: elementwise with values for each channel (kernels/batch_norm/).
#include "providers/opencl/epilogue.h"
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_batch_norm(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  KernelSource source("batch_norm/batch_norm_direct.cl");
  const Addressing dst(candidate.outputs[0]);
  source.tensor("SRC", candidate.inputs[0])
      .tensor("DST", dst)
      .tensor("MEAN", candidate.inputs[1])
      .tensor("VAR", candidate.inputs[2]);
  define_activation(source, op);
  if (op.has(3)) source.tensor("WEIGHT", candidate.inputs[3]);
  if (op.has(4)) source.tensor("BIAS", candidate.inputs[4]);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch =
      kernel->add(source, "batch_norm_direct").input(0, "SRC").output(0, "DST").input(1, "MEAN").input(2, "VAR");
  if (op.has(3)) launch.input(3, "WEIGHT");
  if (op.has(4)) launch.input(4, "BIAS");
  launch.scalar(cl_float(op.attributes.number("eps")));
  over_places(launch, dst);
  return kernel;
}

// The vectors of a value for each channel, in their only layout.
void vectors_plain(const Op& op, Candidate& candidate) {
  for (size_t i = 1; i < candidate.inputs.size(); ++i)
    if (candidate.inputs[i].present)
      candidate.inputs[i] = op.in(int(i)).with_layout(Layout::plain(op.in(int(i)).rank()));
}

void list_batch_norm(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "batch_norm_direct", out, [&](Candidate& candidate) {
    vectors_plain(op, candidate);
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare_batch_norm(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("batch_norm", list_batch_norm);

}  // namespace
}  // namespace pl::opencl
