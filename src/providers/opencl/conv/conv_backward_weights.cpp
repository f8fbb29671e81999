// conv_backward_weights: products of tensors with channels innermost, as they lie (conv_backward_weights_mma); a
// convolution itself, by the kernels of one; and two kernels for what has no matrix product.
//
// The sum over images n and positions p of x[n, i, p * stride - begin + k * dilation] * grad[n, o, p] is the
// convolution of images i with n channels by filters o of the size of grad's images: its output positions are k, its
// stride is the dilation and its dilation the stride.  So x and grad are taken with images innermost (CHWN), and a sum
// over few weights and many positions is split into parts as any convolution's is (MmaPlan).
#include "providers/opencl/addressing/channel_parts.h"
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"
#include "providers/opencl/pointwise/joinable_copy.h"

namespace pl::opencl {
namespace {

constexpr int64_t kMostTapsKept = 49;  // that a work-item keeps sums of

// The window of the convolution that is derived.
WindowArgument window_of_weights(const Op& op) {
  const int spatial = spatial_rank(op);
  const auto &stride = op.attributes[attr::stride], &dilation = op.attributes[attr::dilation],
             &padding = op.attributes[attr::padding];
  WindowArgument window;
  for (int axis = 0; axis < spatial; ++axis) {
    const int at = 3 - spatial + axis;
    window.size[at] = cl_int(op.out().shape[2 + axis]);
    window.stride[at] = cl_int(stride[size_t(axis)]);
    window.dilation[at] = cl_int(dilation[size_t(axis)]);
    window.begin[at] = cl_int(padding[size_t(axis)]);
  }
  return window;
}

// Positions that windows see, and places in tensors, are to fit 31 bits.
bool fits(const Op& op) {
  const int spatial = spatial_rank(op);
  for (int axis = 0; axis < spatial; ++axis) {
    const auto at = [&](const Key<Ints>& key) { return op.attributes[key][size_t(axis)]; };
    const int64_t most = std::max({at(attr::stride), at(attr::dilation), at(attr::padding), op.in(0).shape[2 + axis]});
    if (most >= kNarrowLimit || op.out().shape[2 + axis] >= kNarrowLimit / at(attr::dilation) ||
        op.in(1).shape[2 + axis] >= kNarrowLimit / at(attr::stride))
      return false;
  }
  return true;
}

// ---- as a convolution ----

// Images innermost, in blocks of as many (0: none): bcda, bcdA4a.
Layout images_innermost(int rank, int64_t block) {
  std::string text = "b";
  for (int i = 2; i < rank; ++i) text += char('a' + i);
  return Layout::parse(block ? concat(text, "A", block, "a") : text + "a");
}

// The tensor with its first two dimensions exchanged.
Addressing exchanged(const TensorDesc& desc) {
  Addressing a = with_three_spatial(desc);
  std::swap(a.dims[0], a.dims[1]);
  std::swap(a.strides[0], a.strides[1]);
  for (Addressing::Inner& inner : a.inner)
    if (inner.dim < 2) inner.dim = 1 - inner.dim;
  for (int& dim : a.order)
    if (dim < 2) dim = 1 - dim;
  return a;
}

ConvTensors as_convolution(const Op& op, const Candidate& candidate) {
  ConvTensors t;
  t.src = exchanged(candidate.inputs[0]);
  t.wei = exchanged(candidate.inputs[1]);
  t.dst = exchanged(candidate.outputs[0]);
  t.window = window_of_weights(op);
  std::swap(t.window.stride, t.window.dilation);
  for (int axis = 0; axis < 3; ++axis) t.window.size[axis] = cl_int(t.wei.dims[size_t(2 + axis)]);
  return t;
}

// With images innermost, in blocks of as many (0: none).
Candidate base_of(const Op& op, int64_t block_of_x, int64_t block_of_grad) {
  const int rank = op.in(0).rank();
  Candidate base = make_candidate(op, "conv_backward_weights");
  base.inputs[0] = op.in(0).with_layout(images_innermost(rank, block_of_x));
  base.inputs[1] = op.in(1).with_layout(images_innermost(rank, block_of_grad));
  base.outputs[0] = op.out().with_layout(images_innermost(rank, 0));
  return base;
}

bool is_product(const Op& op) { return op.attributes[attr::groups] == 1; }

// Whether the only product's terms are the same positions of both tensors.
bool pairs_same_positions(const WindowArgument& window, const Addressing& src, const Addressing& grad) {
  for (int axis = 0; axis < 3; ++axis)
    if (window.size[axis] != 1 || window.stride[axis] != 1 || window.begin[axis] != 0 ||
        src.dims[size_t(2 + axis)] != grad.dims[size_t(2 + axis)])
      return false;
  return true;
}

}  // namespace

void list_conv_backward_weights_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!is_product(op)) return;
  // Of few images each position's are padded to one piece; else only grad's, whose pieces are to be whole.
  const int64_t images = op.in(0).shape[0], piece = 16 / int64_t(size_of(op.in(0).dtype));
  const bool few = images <= piece;
  const Candidate base = base_of(op, few ? piece : 0, few || images % piece ? piece : 0);
  add_conv_mma(op, device, base, as_convolution(op, base), out);
}

// ---- as products of tensors as they lie ----

namespace {

std::unique_ptr<Kernel> prepare_turned(OpenclDevice& device, const Op& op, const Candidate& candidate,
                                       const MmaProblem& problem, const MmaPlan& plan, int x, int grad_input) {
  const WindowArgument window = window_of_weights(op);
  const Addressing src = with_three_spatial(candidate.inputs[0]), grad = with_three_spatial(candidate.inputs[1]);
  const Addressing dst = with_three_spatial(candidate.outputs[0]);
  KernelSource source("conv/conv_backward_weights_mma.cl");
  source.tensor("SRC", src).tensor("GRAD", grad).tensor("DST", dst);
  plan.define(source, problem, device);
  source.define("GROUPS", problem.groups).define("GROUPS_OF_TILE", problem.groups_of(plan.tile));
  source.define("POINTWISE", pairs_same_positions(window, src, grad) ? 1 : 0);
  const bool deep = src.dims[2] > 1 || grad.dims[2] > 1 || window.size[0] > 1 || window.begin[0] != 0;
  source.define("DEPTH", deep ? 1 : 0);
  const auto add = [&](KernelList& kernel) {
    Launch& launch = kernel.add(source, "conv_backward_weights_mma");
    launch.input(x, "SRC").input(grad_input, "GRAD").output(0, "DST").scalar(window);
    if (plan.parts > 1) launch.workspace().scalar(cl_int(plan.steps_per_part));
    plan.size(launch, problem);
  };
  if (plan.parts == 1) {
    auto kernel = std::make_unique<KernelList>(device);
    add(*kernel);
    return kernel;
  }
  const int64_t elements = candidate.outputs[0].elements();
  auto kernel = std::make_unique<KernelInParts>(
      device, std::vector{plan_joinable_sum(device, elements, 0, plan.parts, elements, op.out().dtype)});
  add(kernel->sums);
  add_sum_of_parts(kernel->join, op, dst, Epilogue(), problem, plan.parts);
  return kernel;
}

}  // namespace

void list_conv_backward_weights_turned(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_conv_backward_weights_turned(op, device, 0, 1, out);
}

void add_conv_backward_weights_turned(const Op& op, OpenclDevice& device, int x, int grad, CandidateList& out) {
  const int rank = op.in(0).rank();
  MmaProblem problem;
  problem.dtype = op.in(0).dtype;
  problem.groups = op.attributes[attr::groups];
  problem.rows = op.out().shape[0];
  problem.columns = op.out().shape[1];
  problem.turned = true;
  for (int axis = 2; axis < rank; ++axis) problem.products *= op.out().shape[axis];
  problem.run = op.in(1).elements() / op.in(1).shape[1];
  Candidate base = make_candidate(op, "conv_backward_weights_mma");
  for (auto* tensors : {&base.inputs, &base.outputs})
    for (TensorDesc& desc : *tensors)
      if (desc.present) desc = desc.with_layout(Layout::channels_last(rank));
  for (const MmaPlan& plan : mma_plans(device, problem, op.math, out.whole_space)) {
    Candidate candidate = base;
    candidate.implementation = plan.name("conv_backward_weights_mma");
    candidate.efficiency = plan.efficiency;
    candidate.busy_ms = plan.whole_ms / plan.efficiency;
    candidate.workspace_bytes = plan.parts_bytes(problem);
    candidate.ends_later = plan.parts > 1;
    candidate.prepare = [&device, op, base, problem, plan, x, grad] {
      return prepare_turned(device, op, base, problem, plan, x, grad);
    };
    out.add(std::move(candidate));
  }
}

namespace {

// On CPUs, by the kernels that take a whole op: nothing where its last windows end before the input does.
void list_for_processors(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int spatial = spatial_rank(op);
  const auto exchange = [](const TensorDesc& desc) {
    Dims shape = desc.shape;
    std::swap(shape[0], shape[1]);
    return TensorDesc::dense(desc.dtype, shape);
  };
  std::vector<int64_t> padding(size_t(2 * spatial));
  for (int axis = 0; axis < spatial; ++axis) {
    const auto at = [&](const Key<Ints>& key) { return op.attributes[key][size_t(axis)]; };
    const int64_t reach = (op.in(1).shape[2 + axis] - 1) * at(attr::stride) + 1;
    const int64_t end =
        (op.out().shape[2 + axis] - 1) * at(attr::dilation) + reach - op.in(0).shape[2 + axis] - at(attr::padding);
    if (end < 0) return;
    padding[size_t(axis)] = at(attr::padding);
    padding[size_t(spatial + axis)] = end;
  }
  Attributes attributes;
  attributes.set(attr::padding, padding);
  attributes.set(attr::stride, op.attributes[attr::dilation]);
  attributes.set(attr::dilation, op.attributes[attr::stride]);
  Op convolution =
      make_op(*find_schema(concat("conv", spatial, "d")), attributes, {exchange(op.in(0)), exchange(op.in(1)), {}, {}});
  convolution.math = op.math;
  CandidateList list;
  list.whole_space = out.whole_space;
  list_conv_rows(convolution, device, list);
  list_conv_tiled(convolution, device, list);
  Dims exchanged_dims{1, 0};
  for (int i = 2; i < spatial + 2; ++i) exchanged_dims.push_back(i);
  const auto back = [&](TensorDesc& desc, const TensorDesc& own) {
    desc = own.with_layout(desc.layout.permuted(exchanged_dims));
  };
  for (Candidate& candidate : list.candidates) {
    if (!candidate.packings.empty()) continue;
    candidate.inputs.resize(2);
    for (int i : {0, 1}) back(candidate.inputs[size_t(i)], op.in(i));
    back(candidate.outputs[0], op.out());
    candidate.in_place = 0;
    out.add(std::move(candidate));
  }
}

// ---- depthwise ----

// What a work-item takes: pieces of grad's rows.
struct DepthwiseWalk {
  ChannelParts parts;
  int64_t span = 1, pieces = 1;  // positions of a piece, pieces of a row
};

std::optional<DepthwiseWalk> depthwise_walk(const OpenclDevice& device, const TensorDesc& grad, int64_t taps) {
  constexpr int64_t kSpan = 32;          // positions: what a window has before a piece's first one is read again
  constexpr int64_t kGroup = 256;        // work-items
  constexpr int64_t kGroupsOfUnit = 4;   // enough to keep a GPU busy
  constexpr int64_t kMostSummed = 2048;  // positions of a work-item, whose sums' errors grow with them
  // Registers: a work-item has as many sums, and values of src, for each channel.
  const auto parts = channel_parts(device, grad, taps <= 9 ? 4 : taps <= 25 ? 2 : 1);
  if (!parts || !parts->wide) return std::nullopt;
  const int64_t width = grad.shape[grad.rank() - 1], height = grad.rank() == 4 ? grad.shape[2] : 1;
  DepthwiseWalk out;
  out.parts = *parts;
  ChannelParts& p = out.parts;
  out.pieces = divided_up(width, kSpan);
  out.span = divided_up(width, out.pieces);
  out.pieces = divided_up(width, out.span);
  const int64_t rows = height * out.pieces, all = grad.shape[0] * rows;
  p.rows = p.images == grad.shape[0] ? rows : all;  // in blocks, or channels last
  const Capabilities& can = device.capabilities();
  if (!can.cpu) {
    while (p.lanes_y > 1 && p.lanes_y >= 2 * all) p.lanes_y /= 2;
    while (p.lanes_y > 1 && int64_t(p.lanes_x) * p.lanes_y > kGroup) p.lanes_y /= 2;
  }
  const int64_t groups = divided_up(p.width / p.vector, p.lanes_x) * p.blocks, rounds = divided_up(all, p.lanes_y);
  int64_t wanted = std::min(divided_up(kGroupsOfUnit * can.compute_units, groups), rounds);
  wanted = std::max(wanted, divided_up(rounds * out.span, kMostSummed));
  p.rows_of_part = divided_up(rounds, wanted) * p.lanes_y;
  p.parts = divided_up(all, p.rows_of_part);
  return out;
}

std::unique_ptr<Kernel> prepare_depthwise_backward_weights(OpenclDevice& device, const Op& op,
                                                           const Candidate& candidate, const DepthwiseWalk& walk) {
  const ChannelParts& parts = walk.parts;
  const WindowArgument window = window_of_weights(op);
  KernelSource source("conv/conv_backward_weights_depthwise.cl");
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("GRAD_DTYPE", name_of(op.in(1).dtype));
  source.tensor("DST", with_three_spatial(candidate.outputs[0]));
  source.define("KERNEL_H", window.size[1]).define("KERNEL_W", window.size[2]);
  source.define("STRIDE_W", window.stride[2]).define("DILATION_W", window.dilation[2]);
  parts.define(source);
  const Addressing x = with_three_spatial(op.in(0)), grad = with_three_spatial(op.in(1));
  const cl_int sizes[] = {cl_int(x.dims[3]),    cl_int(x.dims[4]), cl_int(grad.dims[3]),
                          cl_int(grad.dims[4]), cl_int(walk.span), cl_int(walk.pieces)};
  const Addressing dst = with_three_spatial(candidate.outputs[0]);
  const int64_t all = parts.blocks * parts.width;  // sums of a tap
  const Dims shape{parts.channels, window.size[1], window.size[2]};
  Addressing from(TensorDesc::dense(DType::f32, shape)), to = from;
  from.strides = {1, window.size[2] * all, all};
  to.strides = {dst.strides[0], dst.strides[3], dst.strides[4]};
  auto kernel = std::make_unique<KernelInParts>(
      device,
      std::vector{plan_joinable_sum(device, shape, from, parts.parts, shape[1] * shape[2] * all, op.out().dtype, to)});
  Launch& sums = kernel->sums.add(source, "conv_backward_weights_depthwise").input(0).input(1).workspace();
  parts.over_parts(parts.walk(sums.scalar(window).raw(sizes, sizeof sizes)));
  Launch& join = kernel->join.add(source, "conv_backward_weights_depthwise_join").workspace().output(0, "DST");
  parts.walk(join).global({size_t(parts.channels), size_t(window.size[1]) * size_t(window.size[2])}).local({64, 1});
  return kernel;
}

void list_depthwise_backward_weights(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  const int64_t channels = x.shape[1];
  if (x.rank() > 4 || op.attributes[attr::groups] != channels || op.in(1).shape[1] != channels) return;
  const WindowArgument window = window_of_weights(op);
  const int64_t taps = int64_t(window.size[1]) * window.size[2];
  if (taps > kMostTapsKept) return;
  add_per_layout(op, "conv_backward_weights_depthwise", out, [&](Candidate& candidate) {
    const Layout& layout = candidate.inputs[0].layout;
    candidate.inputs[1] = op.in(1).with_layout(layout);
    candidate.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
    const auto walk = depthwise_walk(device, candidate.inputs[1], taps);
    if (!walk || !narrow(Addressing(candidate.inputs[0]))) return false;
    const ChannelParts& parts = walk->parts;
    candidate.workspace_bytes = size_t(parts.parts * taps * parts.blocks * parts.width) * sizeof(float);
    candidate.ends_later = true;
    candidate.efficiency = device.capabilities().cpu ? 0.1 : 0.4;
    candidate.prepare = [&device, op, candidate, walk = *walk] {
      return prepare_depthwise_backward_weights(device, op, candidate, walk);
    };
    return true;
  });
}

// ---- any ----

std::unique_ptr<Kernel> prepare_backward_weights_direct(OpenclDevice& device, const Op& op,
                                                        const Candidate& candidate) {
  const Addressing dst = with_three_spatial(candidate.outputs[0]), grad = with_three_spatial(candidate.inputs[1]);
  const int group = row_group(device, op.in(1).elements() / op.in(1).shape[1]);
  KernelSource source("conv/conv_backward_weights_direct.cl");
  source.tensor("SRC", with_three_spatial(candidate.inputs[0])).tensor("GRAD", grad).tensor("DST", dst);
  source.define("GROUP", group);
  const int64_t weights = dst.places();
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "conv_backward_weights_direct")
      .input(0, "SRC")
      .input(1, "GRAD")
      .output(0, "DST")
      .scalar(window_of_weights(op))
      .index(op.out().shape[0] / op.attributes[attr::groups])
      .index(weights)
      .global({size_t(weights * group)})
      .local({size_t(group > 1 ? group : 64)});
  return kernel;
}

void list_conv_backward_weights(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!fits(op)) return out.refuse("opencl", op.schema->name + ": positions of the window need more than 31 bits");
  const bool units = mma_suits(op, device, out);
  if (units) list_conv_backward_weights_turned(op, device, out);
  if (units) list_conv_backward_weights_mma(op, device, out);
  const size_t others = out.candidates.size();
  if (is_product(op) && !device.capabilities().cpu) {
    const Candidate base = base_of(op, 0, 0);
    add_conv_local(op, device, base, as_convolution(op, base), out);
  }
  if (units && others > 0) beside_matrix_unit(out, others);
  if (is_product(op) && device.capabilities().cpu) list_for_processors(op, device, out);
  list_depthwise_backward_weights(op, device, out);
  add_per_layout(op, "conv_backward_weights_direct", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(candidate.inputs[0].layout);
    candidate.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
    // Neighbours along positions lie side by side channels first alone.
    candidate.efficiency = device.capabilities().cpu || !candidate.inputs[0].layout.is_plain() ? 0.01 : 0.03;
    candidate.prepare = [&device, op, candidate] { return prepare_backward_weights_direct(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("conv_backward_weights", list_conv_backward_weights);

}  // namespace
}  // namespace pl::opencl
