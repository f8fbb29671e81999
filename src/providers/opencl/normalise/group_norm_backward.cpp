// group_norm_backward (kernels/normalise/group_norm_backward.cl): sums of each image's channels in parts, what follows
// from them for groups, and what they scale.
#include "providers/opencl/addressing/channel_parts.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int kNumbers = 6, kSums = 4;  // of a channel, and of each part of one: kFactors of the kernels

size_t workspace_bytes(const ChannelParts& parts) {
  return size_t((kNumbers + kSums * parts.parts) * parts.blocks * parts.width) * sizeof(float);
}

std::unique_ptr<Kernel> prepare_group_norm_backward(OpenclDevice& device, const Op& op, const ChannelParts& parts) {
  const Dims& shape = op.in(0).shape;
  const int64_t images = shape[0], groups = op.attributes[attr::num_groups], width = shape[1] / groups;
  const int group = device.capabilities().cpu ? 1 : row_group(device, width);
  KernelSource source("normalise/group_norm_backward.cl");
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("GRAD_DTYPE", name_of(op.in(1).dtype));
  source.define("DST_DTYPE", name_of(op.out().dtype)).define("DWEIGHT_DTYPE", name_of(op.out(1).dtype));
  if (op.has(2)) source.define("WEIGHT_DTYPE", name_of(op.in(2).dtype));
  source.define("GROUP", group);
  parts.define(source);
  const cl_int of_groups[] = {cl_int(images), cl_int(groups), cl_int(width),
                              cl_int(parts.blocks * parts.width / images)};
  auto kernel = std::make_unique<KernelList>(device);
  Launch& sums = kernel->add(source, "group_norm_backward_parts").input(0).input(1).workspace();
  parts.over_parts(parts.walk(sums));
  Launch& join = kernel->add(source, "group_norm_backward_join").workspace();
  if (op.has(2)) join.input(2);
  parts.walk(join).raw(of_groups, sizeof of_groups).scalar(cl_float(op.attributes[attr::eps]));
  join.global({size_t(images * groups * group)}).local({size_t(group)});
  Launch& last = kernel->add(source, "group_norm_backward").input(0).input(1).output(0).workspace();
  parts.over_parts(parts.walk(last));
  Launch& weights = kernel->add(source, "group_norm_backward_weights").workspace().output(1).output(2);
  parts.walk(weights).raw(of_groups, sizeof of_groups).global({size_t(shape[1])}).local({64});
  return kernel;
}

void list_group_norm_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, op.schema->kind, out, [&](Candidate& candidate) {
    const std::optional<ChannelParts> parts = channel_parts_of_images(device, candidate.inputs[0]);
    if (!parts) return false;
    for (TensorDesc& input : candidate.inputs)
      if (input.present)
        input = input.with_layout(input.rank() == op.in(0).rank() ? candidate.inputs[0].layout : Layout::plain(1));
    candidate.workspace_bytes = workspace_bytes(*parts);
    candidate.efficiency = device.capabilities().cpu ? 0.2 : 0.5;  // x and grad are read twice
    candidate.start_ms = 3 * kLaunchMs;
    candidate.prepare = [&device, op, parts = *parts] { return prepare_group_norm_backward(device, op, parts); };
    return true;
  });
}
PL_OPENCL_OP("group_norm_backward", list_group_norm_backward);

}  // namespace
}  // namespace pl::opencl
