// conv_transpose: transposed convolution (kernels/conv_transpose/).
#include "providers/opencl/conv/conv_common.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_direct(OpenclDevice& device, const Op& op, const ConvTensors& t) {
  KernelSource source("conv_transpose/conv_transpose_direct.cl");
  t.define(source, op);
  const int64_t places = t.dst.places();
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_transpose_direct").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.channels_per_group()).index(places).global({size_t(places)}).local({64});
  return kernel;
}

void list_conv_transpose(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (const auto reason = window_refusal(op)) return out.refuse("opencl", *reason);
  add_per_layout(op, "conv_transpose_direct", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
    if (op.has(2)) candidate.inputs[2] = op.in(2).with_layout(Layout::plain(1));
    candidate.efficiency = device.capabilities().cpu ? 0.03 : 0.05;
    candidate.prepare = [&device, op, t = ConvTensors(op, candidate)] { return prepare_direct(device, op, t); };
    return true;
  });
}

PL_OPENCL_OP("conv_transpose", list_conv_transpose);

}  // namespace
}  // namespace pl::opencl
