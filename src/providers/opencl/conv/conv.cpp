// conv: convolution (kernels/conv/).
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"

namespace pl::opencl {

ConvTensors::ConvTensors(const Op& op, const Candidate& candidate)
    : src(with_three_spatial(candidate.inputs[0])),
      wei(with_three_spatial(candidate.inputs[1])),
      dst(with_three_spatial(candidate.outputs[0])),
      window(window_argument(op)),
      groups(op.attributes[attr::groups]) {
  if (op.has(2)) {
    epilogue.bias = 2;
    epilogue.bias_desc = candidate.inputs[2];
  }
  epilogue.read_operands(op, [&](int i) { return with_three_spatial(candidate.inputs[size_t(i)]); });
}

void ConvTensors::define(KernelSource& source, const Op& op) const {
  source.tensor("SRC", src).tensor("WEI", wei).tensor("DST", dst);
  epilogue.define(source, op);
}

bool ConvTensors::deep() const {
  if (stack > 1 || row_groups > 0) return false;
  return src.dims[2] > 1 || dst.dims[2] > 1 || wei.dims[2] > 1 || window.begin[0] != 0;
}

bool ConvTensors::pointwise() const {
  if (taps() != 1) return false;
  for (int axis = deep() ? 0 : 1; axis < 3; ++axis)
    if (window.begin[axis] != 0 || (dst.dims[size_t(2 + axis)] - 1) * window.stride[axis] >= src.dims[size_t(2 + axis)])
      return false;
  return true;
}

bool ConvTensors::scattered() const {
  if (stack > 1 || dst.unit().first != 1) return false;
  int64_t follows = dst.dims[1];
  for (int dim : {4, 3, 2, 0}) {
    if (dst.dims[size_t(dim)] > 1 && dst.strides[size_t(dim)] != follows) return true;
    follows *= dst.dims[size_t(dim)];
  }
  return false;
}

ShapeClass shape_class(const ConvTensors& t) {
  std::string kind = t.taps() == 1 ? "pointwise" : "window";
  if (t.groups > 1) kind += "s";  // in groups
  kind += t.dst.unit().first == 1 ? (t.dst.unit().second ? "-blocks" : "-channels") : "-columns";
  return {t.src.dtype, kind, t.pixels(), t.out_channels_per_group(), t.channels_per_group() * t.taps()};
}

bool pads_channels_only(const Addressing& addressing) {
  for (const Addressing::Inner& inner : addressing.inner)
    if (inner.dim != 1) return false;
  return true;
}

Layout packed_weights(int rank) {
  std::string text = "A";
  for (int i = 2; i < rank; ++i) text += char('a' + i);
  return Layout::parse(text + "b16a");
}

Layout channels_last_padded(int rank, int64_t block) {
  std::string text = "a";
  for (int i = 2; i < rank; ++i) text += char('a' + i);
  return Layout::parse(concat(text, "B", block, "b"));
}

void complete_conv(const Op& op, Candidate& candidate) {
  if (op.has(2)) candidate.inputs[2] = op.in(2).with_layout(Layout::plain(1));
  place_operands(op, candidate);
}

std::vector<Candidate> packed_candidates(const Op& op) {
  CandidateList list;
  add_per_layout(op, "", list, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(packed_weights(op.in(1).rank()));
    complete_conv(op, candidate);
    return true;
  });
  return std::move(list.candidates);
}

namespace {

std::unique_ptr<Kernel> prepare_conv_direct(OpenclDevice& device, const Op& op, const ConvTensors& t) {
  KernelSource source("conv/conv_fwd_direct.cl");
  t.define(source, op);
  const int64_t places = t.dst.places();
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_direct").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.out_channels_per_group()).index(places).global({size_t(places)}).local({64});
  return kernel;
}

void list_conv(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (const auto reason = window_refusal(op)) return out.refuse("opencl", *reason);
  const size_t first = out.candidates.size();
  if (mma_suits(op, device, out)) list_conv_mma(op, device, out);
  const size_t others = out.candidates.size();
  if (device.capabilities().cpu) {
    list_conv_rows(op, device, out);
    list_conv_tiled(op, device, out);
  } else {
    list_conv_local(op, device, out);
  }
  add_per_layout(op, "conv_fwd_direct", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
    complete_conv(op, candidate);
    candidate.efficiency = device.capabilities().cpu ? 0.03 : 0.05;
    candidate.prepare = [&device, op, t = ConvTensors(op, candidate)] { return prepare_conv_direct(device, op, t); };
    return true;
  });
  if (others > first) beside_matrix_unit(out, others);
  if (!device.capabilities().cpu) {
    list_conv_winograd(op, device, out);
    list_conv_quad(op, device, out);
  }
  list_conv_skinny(op, device, out);
  list_conv_depthwise(op, device, out);
  if (device.capabilities().cpu)
    list_conv_depthwise_rows(op, device, out);
  else
    list_conv_depthwise_window(op, device, out);
}

PL_OPENCL_OP("conv", list_conv);

}  // namespace
}  // namespace pl::opencl
