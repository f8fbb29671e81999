// batch_norm_training and batch_norm_backward (kernels/batch_norm/): sums of each channel in parts, what follows from
// them, and what they scale.
#include "providers/opencl/addressing/channel_parts.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_training(OpenclDevice& device, const Op& op, const ChannelParts& parts) {
  KernelSource source("batch_norm/batch_norm_training.cl");
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("DST_DTYPE", name_of(op.out().dtype));
  source.define("WEIGHT_DTYPE", name_of(op.in(1).dtype)).define("BIAS_DTYPE", name_of(op.in(2).dtype));
  source.define("MEAN_DTYPE", name_of(op.out(1).dtype)).define("VAR_DTYPE", name_of(op.out(2).dtype));
  parts.define(source);
  auto kernel = std::make_unique<KernelList>(device);
  parts.over_parts(parts.walk(kernel->add(source, "batch_norm_training_parts").input(0).workspace()));
  Launch& join = kernel->add(source, "batch_norm_training_join").workspace().workspace().input(1).input(2);
  parts.walk(join.output(1).output(2)).scalar(cl_float(op.attributes.number("eps")));
  parts.over_channels(join);
  parts.over_parts(parts.walk(kernel->add(source, "batch_norm_training").input(0).output(0).workspace()));
  return kernel;
}

std::unique_ptr<Kernel> prepare_backward(OpenclDevice& device, const Op& op, const ChannelParts& parts) {
  KernelSource source("batch_norm/batch_norm_backward.cl");
  const char* const names[] = {"SRC_DTYPE", "GRAD_DTYPE", "MEAN_DTYPE", "VAR_DTYPE", "WEIGHT_DTYPE"};
  for (int i = 0; i < 5; ++i) source.define(names[i], name_of(op.in(i).dtype));
  const char* const results[] = {"DST_DTYPE", "DWEIGHT_DTYPE", "DBIAS_DTYPE"};
  for (int i = 0; i < 3; ++i) source.define(results[i], name_of(op.out(i).dtype));
  parts.define(source);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& sums = kernel->add(source, "batch_norm_backward_parts").input(0).input(1).input(2).workspace();
  parts.over_parts(parts.walk(sums));
  Launch& join = kernel->add(source, "batch_norm_backward_join").workspace().workspace().input(2).input(3).input(4);
  parts.walk(join.output(1).output(2)).scalar(cl_float(op.attributes.number("eps")));
  parts.over_channels(join);
  Launch& last = kernel->add(source, "batch_norm_backward").input(0).input(1).output(0).workspace();
  parts.over_parts(parts.walk(last));
  return kernel;
}

// Both ops: tensors of the shape of x in one layout, those of channels in their only one.
void list_channels(const Op& op, OpenclDevice& device, CandidateList& out,
                   std::unique_ptr<Kernel> (*prepare)(OpenclDevice&, const Op&, const ChannelParts&)) {
  add_per_layout(op, op.schema->name, out, [&](Candidate& candidate) {
    const auto parts = channel_parts(device, candidate.inputs[0]);
    if (!parts) return false;
    for (TensorDesc& input : candidate.inputs)
      input = input.with_layout(input.rank() == op.in(0).rank() ? candidate.inputs[0].layout : Layout::plain(1));
    candidate.workspace_bytes = parts->workspace_bytes();
    // Each tensor that is read is read twice.
    candidate.efficiency = device.capabilities().cpu ? 0.2 : 0.5;
    candidate.prepare = [&device, op, parts = *parts, prepare] { return prepare(device, op, parts); };
    return true;
  });
}

PL_OPENCL_OP("batch_norm_training", [](const Op& op, OpenclDevice& device, CandidateList& out) {
  list_channels(op, device, out, prepare_training);
});
PL_OPENCL_OP("batch_norm_backward", [](const Op& op, OpenclDevice& device, CandidateList& out) {
  list_channels(op, device, out, prepare_backward);
});

}  // namespace
}  // namespace pl::opencl
