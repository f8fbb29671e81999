// batch_norm_training and batch_norm_backward (kernels/batch_norm/): sums of each channel in parts, what follows from
// them, and what they scale.
#include "ops/normalization.h"
#include "ops/post_ops.h"
#include "providers/opencl/addressing/channel_parts.h"
#include "providers/opencl/pointwise/pointwise_text.h"
#include "providers/opencl/program/epilogue.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr double kUnitsOfGroup = 3;  // what a work-group of whole channels reads, in shares of a unit's of all memory
constexpr size_t kMostWhole = size_t(4) << 20;  // bytes

std::unique_ptr<Kernel> prepare_training(OpenclDevice& device, const Op& op, const ChannelParts& parts) {
  const cl_float eps = cl_float(op.attributes[attr::eps]);
  KernelSource source("batch_norm/batch_norm_training.cl");
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("DST_DTYPE", name_of(op.out().dtype));
  source.define("WEIGHT_DTYPE", name_of(op.in(1).dtype)).define("BIAS_DTYPE", name_of(op.in(2).dtype));
  source.define("MEAN_DTYPE", name_of(op.out(1).dtype)).define("VAR_DTYPE", name_of(op.out(2).dtype));
  define_operands(source, op);
  parts.define(source);
  const auto finished = [&](Launch& launch) {
    pass_operands(launch, op);
    parts.over_parts(launch);
  };
  auto kernel = std::make_unique<KernelList>(device);
  if (parts.parts == 1) {
    Launch& all = kernel->add(source, "batch_norm_training_whole").input(0).input(1).input(2);
    finished(parts.walk(all.output(0).output(1).output(2)).scalar(eps));
    return kernel;
  }
  parts.over_parts(parts.walk(kernel->add(source, "batch_norm_training_parts").input(0).workspace()));
  if (parts.parts <= kMostFewParts) {
    Launch& last = kernel->add(source, "batch_norm_training_joined").input(0).workspace().input(1).input(2);
    finished(parts.walk(last.output(0).output(1).output(2)).scalar(eps));
    return kernel;
  }
  Launch& join = kernel->add(source, "batch_norm_training_join").workspace().workspace().input(1).input(2);
  parts.over_channels(parts.walk(join.output(1).output(2)).scalar(eps));
  finished(parts.walk(kernel->add(source, "batch_norm_training").input(0).output(0).workspace()));
  return kernel;
}

std::unique_ptr<Kernel> prepare_batch_norm_backward(OpenclDevice& device, const Op& op, const ChannelParts& parts) {
  const std::optional<PostOp> function = activation_of(op);
  const cl_float eps = cl_float(op.attributes[attr::eps]);
  KernelSource source("batch_norm/batch_norm_backward.cl");
  const char* const names[] = {"SRC_DTYPE", "GRAD_DTYPE", "MEAN_DTYPE", "VAR_DTYPE", "WEIGHT_DTYPE", "BIAS_DTYPE"};
  for (int i = 0; i < (function ? 6 : 5); ++i) source.define(names[i], name_of(op.in(i).dtype));
  const char* const results[] = {"DST_DTYPE", "DWEIGHT_DTYPE", "DBIAS_DTYPE"};
  for (int i = 0; i < 3; ++i) source.define(results[i], name_of(op.out(i).dtype));
  source.define("INVERTED", op.attributes[attr::inverted] ? 1 : 0);
  source.define("SLOPED", function ? 1 : 0);
  if (function) define_slope(source, "SLOPE", *function);
  parts.define(source);
  const auto sloped = [&](Launch& launch) {
    if (function) launch.input(3).input(4).input(5).scalar(eps);
    parts.over_parts(launch);
  };
  auto kernel = std::make_unique<KernelList>(device);
  if (parts.parts == 1) {
    Launch& all = kernel->add(source, "batch_norm_backward_whole").input(0).input(1).input(2).input(3).input(4);
    sloped(parts.walk(all.output(0).output(1).output(2)).scalar(eps));
    return kernel;
  }
  sloped(parts.walk(kernel->add(source, "batch_norm_backward_parts").input(0).input(1).input(2).workspace()));
  if (parts.parts <= kMostFewParts) {
    Launch& last = kernel->add(source, "batch_norm_backward_joined").input(0).input(1).workspace();
    sloped(parts.walk(last.input(2).input(3).input(4).output(0).output(1).output(2)).scalar(eps));
    return kernel;
  }
  Launch& join = kernel->add(source, "batch_norm_backward_join").workspace().workspace().input(2).input(3).input(4);
  parts.over_channels(parts.walk(join.output(1).output(2)).scalar(eps));
  sloped(parts.walk(kernel->add(source, "batch_norm_backward").input(0).input(1).output(0).workspace()));
  return kernel;
}

// Whether padding is 0 in results as in x and grad: 0 times a slope at 0, which must be finite.
bool keeps_padding(const Op& op) {
  if (op.schema->name == "batch_norm_backward") {
    const std::optional<PostOp> function = activation_of(op);
    if (!function) return true;
    for (const char* name : {"log", "sqrt", "rsqrt", "reciprocal", "acosh"})
      if (function->name == name) return false;
    return true;
  }
  const auto keeps = [](const PostOp& step) {
    if (step.kind != PostOp::Kind::function) return true;
    if (const auto limits = Limits::of(step)) return limits->low <= 0 && limits->high >= 0;
    for (const char* name :
         {"leaky_relu", "elu", "gelu_erf", "gelu_tanh", "silu", "hardswish", "tanh", "mish", "abs", "neg"})
      if (step.name == name) return true;
    return false;
  };
  const PostOps& list = post_ops_of(op);
  return std::all_of(list.begin(), list.end(), keeps);
}

// Both ops: tensors of the shape of x in one layout, those of channels in their only one.
void list_channels(const Op& op, OpenclDevice& device, CandidateList& out,
                   std::unique_ptr<Kernel> (*prepare)(OpenclDevice&, const Op&, const ChannelParts&)) {
  const auto add = [&](const std::string& name, const auto& parts_of) {
    add_per_layout(op, name, out, [&](Candidate& candidate) {
      std::optional<ChannelParts> parts = parts_of(candidate);
      if (!parts) return false;
      if (candidate.inputs[0].has_padding() && !keeps_padding(op)) return false;
      for (TensorDesc& input : candidate.inputs)
        if (input.present)
          input = input.with_layout(input.rank() == op.in(0).rank() ? candidate.inputs[0].layout : Layout::plain(1));
      place_operands(op, candidate);
      if (parts->parts > 1) {
        candidate.workspace_bytes = parts->workspace_bytes();
        candidate.start_ms = kLaunchMs * (parts->parts <= kMostFewParts ? 1 : 2);
      }
      candidate.prepare = [&device, op, parts = *parts, prepare] { return prepare(device, op, parts); };
      return true;
    });
  };
  const Capabilities& can = device.capabilities();
  add(op.schema->name, [&](Candidate& candidate) {
    // Each tensor that is read is read twice.
    candidate.efficiency = can.cpu ? 0.2 : 0.5;
    return few_channel_parts(device, candidate.inputs[0]);
  });
  // One launch in place of two: for tensors that take no longer than starting the second.
  if (!can.cpu && op.in(0).size_bytes() <= kMostWhole) {
    add(op.schema->name + "_whole", [&](Candidate& candidate) {
      int64_t groups = 1;
      std::optional<ChannelParts> parts = whole_channels(device, candidate.inputs[0], &groups);
      candidate.efficiency = 0.5 * std::min(1.0, kUnitsOfGroup * double(groups) / double(can.compute_units));
      return parts;
    });
  }
}

PL_OPENCL_OP("batch_norm_training", [](const Op& op, OpenclDevice& device, CandidateList& out) {
  list_channels(op, device, out, prepare_training);
});
PL_OPENCL_OP("batch_norm_backward", [](const Op& op, OpenclDevice& device, CandidateList& out) {
  list_channels(op, device, out, prepare_batch_norm_backward);
});

}  // namespace
}  // namespace pl::opencl
