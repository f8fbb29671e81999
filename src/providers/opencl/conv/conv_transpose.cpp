// conv_transpose: transposed convolution, which is also the gradient of a convolution by its input.
//
// Output positions fall into phases by q % stride along each axis; those of one phase are a convolution of stride 1
// with every stride-th tap, turned around and with input and output channels exchanged.  So the kernels of convolutions
// run them, each writing positions that lie apart (ConvTensors::scattered).  Weights are turned where they are packed,
// or in each run where a program computes them (kernels/conv_transpose/conv_turn_weights.cl).
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"
#include "providers/opencl/pointwise/joinable_copy.h"

namespace pl::opencl {
namespace {

constexpr double kTermMs = 3e-4;     // a work-item's wait for two numbers that it multiplies, on an H200
constexpr size_t kMostOfPhases = 3;  // ways to multiply that are tried where there are several phases
constexpr int64_t kMostPhases = 64;

// Of one residue of output positions along one axis.
struct AxisPhase {
  int64_t first = 0, count = 1;  // output positions: first, first + stride, ...
  int64_t tap = 0, taps = 1;     // the first tap, and how many
  int64_t begin = 0;             // padding of the convolution: negative where it begins within the input
  int64_t dilation = 1;
};

// In the order of their first taps; those without output positions are there, with none.
std::vector<AxisPhase> phases_of(const Window& w) {
  std::vector<AxisPhase> phases;
  for (int64_t tap = 0; tap < w.stride; ++tap) {
    AxisPhase phase;
    phase.tap = tap;
    phase.taps = tap < w.kernel ? divided_up(w.kernel - tap, w.stride) : 0;
    phase.first = ((tap - w.begin) % w.stride + w.stride) % w.stride;
    phase.count = phase.first < w.out ? divided_up(w.out - phase.first, w.stride) : 0;
    phase.dilation = w.stride == 1 ? w.dilation : 1;
    phase.begin = (phase.taps - 1) * phase.dilation - (phase.first + w.begin - tap) / w.stride;
    phases.push_back(phase);
  }
  return phases;
}

struct Phase {
  ConvTensors t;
  int64_t weights = 0;  // its elements of turned weights
  bool empty = false;   // no tap reaches it
};

// Turned weights (o, i, d, h, w) of one phase: inputs innermost, with zeros behind them up to whole pieces of 16 bytes.
TensorDesc turned_desc(DType dtype, const Dims& shape) {
  const int64_t piece = 16 / int64_t(size_of(dtype));
  return TensorDesc::dense(dtype, shape, shape[1] % piece ? channels_last_padded(5, piece) : Layout::channels_last(5));
}

// A transposed convolution as convolutions, for tensors with channels last.
struct Phases {
  std::vector<Phase> all;
  Candidate base;
  WindowArgument window;  // of the op
  int64_t groups, ic, ic_padded, oc, taps;
  int64_t weights = 0;  // turned, elements
  bool round;

  // The convolutions of the phases that taps reach; their weights begin at element `from` of the buffer that holds
  // them.
  std::vector<ConvTensors> products(int64_t from) const {
    std::vector<ConvTensors> out;
    for (const Phase& phase : all) {
      if (!phase.empty) {
        out.push_back(phase.t);
        out.back().wei.offset = from;
      }
      from += phase.weights;
    }
    return out;
  }
};

// Phases of equal sizes as one, of which a single launch computes all; nothing where they differ.
std::vector<ConvTensors> together(const std::vector<ConvTensors>& products) {
  if (products.size() < 2) return {};
  ConvTensors all = products.front();
  for (const ConvTensors& t : products) {
    if (t.groups != 1 || t.dst.dims != all.dst.dims || t.wei.dims != all.wei.dims || t.pointwise() != all.pointwise() ||
        t.deep() != all.deep())
      return {};
    const cl_int* begin = t.window.begin;
    all.phases.push_back({{begin[0], begin[1], begin[2]}, t.dst.offset - products.front().dst.offset});
  }
  return {all};
}

std::optional<Phases> phases_of(const Op& op) {
  const int spatial = spatial_rank(op), rank = spatial + 2;
  Window windows[3];  // along d, h, w
  int64_t count = 1, taps = 1;
  for (int axis = 0; axis < 3; ++axis) {
    Window& w = windows[axis];
    w.in = w.out = 1;
    if (axis >= 3 - spatial) w = window_of(op, axis - (3 - spatial));
    if (w.stride > 1 && w.dilation > 1) return std::nullopt;
    count *= w.stride;
    if (count > kMostPhases) return std::nullopt;
    taps *= w.kernel;
  }
  Phases out;
  const DType dtype = op.in(0).dtype;
  const int64_t piece = 16 / int64_t(size_of(dtype));
  out.window = window_argument(op);
  out.groups = op.attributes[attr::groups];
  out.ic = op.in(0).shape[1] / out.groups;
  out.ic_padded = divided_up(out.ic, piece) * piece;
  out.oc = op.out().shape[1];
  out.taps = taps;
  out.round = dtype == DType::f32 && op.math != Math::fp32;
  out.base = make_candidate(op, "conv_transpose");
  out.base.inputs[0] = op.in(0).with_layout(Layout::channels_last(rank));
  out.base.outputs[0] = op.out().with_layout(Layout::channels_last(rank));
  complete_conv(op, out.base);
  const Addressing src = with_three_spatial(out.base.inputs[0]), dst = with_three_spatial(out.base.outputs[0]);
  if (!narrow(src) || !narrow(dst)) return std::nullopt;
  const std::vector<AxisPhase> along[] = {phases_of(windows[0]), phases_of(windows[1]), phases_of(windows[2])};
  for (int64_t number = 0; number < count; ++number) {
    const int64_t lines = number / windows[2].stride;
    const AxisPhase* const axes[] = {&along[0][size_t(lines / windows[1].stride)],
                                     &along[1][size_t(lines % windows[1].stride)],
                                     &along[2][size_t(number % windows[2].stride)]};
    Phase phase;
    ConvTensors& t = phase.t;
    t.src = src;
    t.dst = dst;
    t.groups = out.groups;
    t.made = true;
    bool written = true;
    Dims turned{out.oc, out.ic};
    for (size_t i = 0; i < 3; ++i) {
      const AxisPhase& axis = *axes[i];
      t.dst.offset += axis.first * dst.strides[2 + i];
      t.dst.dims[2 + i] = axis.count;
      t.dst.strides[2 + i] *= windows[i].stride;
      turned.push_back(axis.taps);
      phase.empty = phase.empty || axis.taps == 0;
      written = written && axis.count > 0;
    }
    if (!phase.empty) {
      t.wei = Addressing(turned_desc(dtype, turned));
      phase.weights = out.oc * turned[2] * turned[3] * turned[4] * out.ic_padded;
      for (size_t i = 0; i < 3; ++i) {
        t.window.size[i] = cl_int(axes[i]->taps);
        t.window.dilation[i] = cl_int(axes[i]->dilation);
        t.window.begin[i] = cl_int(axes[i]->begin);
      }
    }
    if (op.has(2)) {
      t.epilogue.bias = 2;
      t.epilogue.bias_desc = out.base.inputs[2];
    }
    t.epilogue.read_operands(op, [&](int) { return t.dst; });  // they lie as the result does
    out.weights += phase.weights;
    if (written)
      out.all.push_back(std::move(phase));
    else if (phase.weights > 0)  // turned, and not used
      return std::nullopt;
  }
  return out;
}

// Turns weights around that lie plain; nothing where several phases have taps, or where it cannot run with others.
std::optional<ComputationPlan> plan_turn(const OpenclDevice& device, const Phases& phases, const TensorDesc& weights) {
  const auto has_taps = [](const Phase& phase) { return !phase.empty; };
  if (std::count_if(phases.all.begin(), phases.all.end(), has_taps) != 1) return std::nullopt;
  const ConvTensors& t = std::find_if(phases.all.begin(), phases.all.end(), has_taps)->t;
  const Addressing source = with_three_spatial(weights);
  const Dims shape{phases.oc, phases.ic, t.wei.dims[2], t.wei.dims[3], t.wei.dims[4]};
  // Places in `weights` of what is (o, i, d, h, w) turned: taps from the last one on, the inputs of o's group.
  Addressing from(TensorDesc::dense(weights.dtype, shape));
  from.strides = {source.strides[1], source.strides[0]};
  from.offset = source.offset;
  for (size_t dim = 2; dim < 5; ++dim) {
    from.strides[dim] = -source.strides[dim];
    from.offset += (shape[int(dim)] - 1) * source.strides[dim];
  }
  if (phases.groups > 1) {
    from.inner = {{0, phases.oc / phases.groups, source.strides[1], 1}};
    from.strides[0] = phases.ic * source.strides[0];
  }
  const Addressing to(turned_desc(weights.dtype, shape));
  return plan_joinable_copy(device, shape, weights.dtype, from, to, phases.round);
}

void add_turn(KernelList& kernel, const Phases& phases, const TensorDesc& weights, int64_t from, bool packs) {
  KernelSource source("conv_transpose/conv_turn_weights.cl");
  source.tensor("WEI", with_three_spatial(weights)).define("DST_DTYPE", name_of(weights.dtype));
  source.define("ROUND", phases.round ? 1 : 0);
  Launch& launch = kernel.add(source, "conv_turn_weights").input(packs ? 0 : 1, "WEI");
  packs ? launch.output(0) : launch.workspace();
  launch.scalar(phases.window).scalar(cl_int(phases.ic)).scalar(cl_int(phases.ic_padded));
  launch.scalar(cl_int(phases.oc / phases.groups)).scalar(cl_int(phases.oc)).scalar(cl_int(from));
  launch.global({size_t(phases.ic_padded), size_t(phases.taps), size_t(phases.oc)});
  launch.local({size_t(std::min<int64_t>(64, phases.ic_padded)), 1, 1});
}

class PhasesKernel : public Kernel {
 public:
  explicit PhasesKernel(OpenclDevice& device) : turn(device), empty(device) {}
  void run(const KernelArguments& arguments) override {
    if (turns) turn.run(arguments);
    const std::vector<Buffer*> turned = turns ? weights_from_workspace(arguments, count) : std::vector<Buffer*>();
    const KernelArguments each = arguments.with(turns ? turned.data() : arguments.inputs, arguments.outputs);
    for (const auto& product : products) product->run(each);
    empty.run(arguments);
  }
  KernelList turn, empty;
  std::vector<std::unique_ptr<Kernel>> products;
  bool turns = false;
  size_t count = 0;  // inputs of the op
};

using Ways = std::vector<std::vector<Candidate>>;  // by phase with taps, the most promising first

Ways ways_of(const Op& op, OpenclDevice& device, const Phases& phases, const std::vector<ConvTensors>& products,
             bool units, bool whole_space) {
  Ways ways;
  for (const ConvTensors& t : products) {
    CandidateList list;
    list.whole_space = whole_space;
    units ? add_conv_mma(op, device, phases.base, t, list) : add_conv_local(op, device, phases.base, t, list);
    ways.push_back(std::move(list.candidates));
  }
  return ways;
}

std::unique_ptr<Kernel> prepare_conv_transpose(OpenclDevice& device, const Op& op, const Phases& phases,
                                               const std::vector<Candidate>& products, const TensorDesc& weights,
                                               int64_t from, bool turns) {
  auto kernel = std::make_unique<PhasesKernel>(device);
  kernel->turns = turns;
  kernel->count = op.inputs.size();
  if (turns) add_turn(kernel->turn, phases, weights, from, false);
  for (const Candidate& product : products) kernel->products.push_back(product.prepare());
  for (const Phase& phase : phases.all) {
    if (!phase.empty) continue;
    const ConvTensors& t = phase.t;
    KernelSource source("conv_transpose/conv_transpose_empty.cl");
    source.tensor("DST", t.dst);
    t.epilogue.define(source, op);
    Launch& launch = kernel->empty.add(source, "conv_transpose_empty").output(0, "DST");
    t.epilogue.pass(launch);
    const int64_t positions = t.pixels();
    launch.index(positions).global({size_t(phases.oc), size_t(positions)}).local({32, 4});
  }
  return kernel;
}

// How the phases are run.
enum class By {
  local,  // one after the other, by kernels that share tiles in local memory
  units,  // one after the other, on matrix units
  one     // on matrix units, all by one launch
};

void add_phases(const Op& op, OpenclDevice& device, const Phases& phases, By by, CandidateList& out) {
  const bool units = by != By::local;
  const auto products_from = [&](int64_t from) {
    return by == By::one ? together(phases.products(from)) : phases.products(from);
  };
  const Ways first = ways_of(op, device, phases, products_from(0), units, out.whole_space);
  size_t count = SIZE_MAX, workspace = 0;
  for (const auto& ways : first) {
    count = std::min(count, ways.size());
    for (const Candidate& way : ways) workspace = std::max(workspace, way.workspace_bytes);
  }
  if (first.empty() || count == 0) return;
  if (phases.all.size() > 1) count = std::min(count, kMostOfPhases);
  const auto is_empty = [](const Phase& phase) { return phase.empty; };
  const auto empty = size_t(std::count_if(phases.all.begin(), phases.all.end(), is_empty));
  const size_t element = size_of(op.in(0).dtype);
  const int64_t behind = int64_t((workspace + 255) / 256 * 256 / element);
  if (behind + phases.weights >= int64_t(1) << 31) return;
  const TensorDesc weights = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
  const std::optional<ComputationPlan> turn = plan_turn(device, phases, weights);
  for (const bool turns : {false, true}) {
    const int64_t from = turns ? behind : 0;
    const std::vector<ConvTensors> tensors = products_from(from);
    const Ways ways = turns ? ways_of(op, device, phases, tensors, units, out.whole_space) : first;
    for (size_t i = 0; i < count; ++i) {
      Candidate candidate = phases.base;
      std::vector<Candidate> products;
      double all = 0, needed = 0, busy = 0;
      bool known = true;
      for (size_t p = 0; p < tensors.size(); ++p) {
        const Candidate& way = ways[p][i];
        const double flops = double(tensors[p].pixels()) * double(tensors[p].taps());
        all += flops;
        needed += flops / way.efficiency;
        busy += way.busy_ms;
        known = known && way.busy_ms > 0;
        products.push_back(way);
      }
      candidate.implementation = concat(by == By::one ? "conv_transpose_together[" : "conv_transpose_phases[",
                                        products.front().implementation, turns ? ",turns]" : "]");
      candidate.inputs[1] = weights;
      candidate.workspace_bytes = workspace;
      candidate.efficiency = std::max(1e-3, all / needed);
      candidate.busy_ms = known ? busy : 0;
      candidate.start_ms = kLaunchMs * double(tensors.size() + empty - 1 + (turns ? 1 : 0));
      if (phases.all.size() == 1) candidate.tuning = products.front().tuning;
      if (turns) {
        candidate.workspace_bytes = size_t(behind + phases.weights) * element;
      } else {
        std::string form = concat("turned:", op.in(1).dtype == DType::f32 && phases.round ? "tf32:" : "");
        for (int axis : {0, 1, 2}) form += concat(phases.window.stride[axis], ":");
        form += concat(phases.groups, ":", phases.ic_padded);
        Packing packing;
        packing.input = 1;
        packing.form = form;
        packing.bytes = size_t(phases.weights) * element;
        packing.pack = packed_by([&device, phases, weights] {
          auto kernel = std::make_unique<KernelList>(device);
          add_turn(*kernel, phases, weights, 0, true);
          return kernel;
        });
        if (turn) packing.prepare = [&device, turn] { return prepare_computation(device, *turn); };
        candidate.packings = {packing};
      }
      candidate.prepare = [&device, op, phases, products, weights, from, turns] {
        return prepare_conv_transpose(device, op, phases, products, weights, from, turns);
      };
      out.add(std::move(candidate));
    }
  }
}

void add_on_units(const Op& op, OpenclDevice& device, const Phases& phases, CandidateList& out) {
  add_phases(op, device, phases, By::one, out);
  add_phases(op, device, phases, By::units, out);
}

// Of stride 1, one phase.
void add_winograd(const Op& op, OpenclDevice& device, const Phases& phases, CandidateList& out) {
  const int rank = op.in(0).rank();
  if (op.in(0).dtype != DType::f32 || rank < 4 || op.attributes[attr::groups] != 1) return;
  if (phases.all.size() != 1) return;
  Candidate base = phases.base;
  base.inputs[1] = op.in(1).with_layout(Layout::plain(rank));
  ConvTensors t = phases.all.front().t;
  t.made = false;
  t.wei = with_three_spatial(base.inputs[1]);  // (ic, oc), exchanged
  std::swap(t.wei.dims[0], t.wei.dims[1]);
  std::swap(t.wei.strides[0], t.wei.strides[1]);
  add_conv_winograd(op, device, base, t, true, out);
}

// ---- stride 1, by kernels that take a whole convolution ----

// Turns weights around into the workspace, then runs a convolution with them.
class TurnedKernel : public Kernel {
 public:
  TurnedKernel(OpenclDevice& device, std::unique_ptr<Kernel> convolution)
      : turn(device), convolution_(std::move(convolution)) {}
  void run(const KernelArguments& arguments) override {
    turn.run(arguments);
    convolution_->run(arguments.with(weights_from_workspace(arguments, count).data(), arguments.outputs));
  }
  KernelList turn;
  size_t count = 0;  // inputs of the op

 private:
  std::unique_ptr<Kernel> convolution_;
};

// The convolution; nothing where strides are above 1, or it would begin or end within the input.
std::optional<Op> convolution_of(const Op& op) {
  const int spatial = spatial_rank(op);
  std::vector<int64_t> padding(size_t(2 * spatial));
  for (int axis = 0; axis < spatial; ++axis) {
    const Window w = window_of(op, axis);
    const int64_t begin = w.reach() - 1 - w.begin, end = w.out - op.in(0).shape[2 + axis] - begin + w.reach() - 1;
    if (w.stride != 1 || begin < 0 || end < 0) return std::nullopt;
    padding[size_t(axis)] = begin;
    padding[size_t(spatial + axis)] = end;
  }
  Attributes attributes;
  attributes.set(attr::padding, padding);
  attributes.take(op.attributes, {attr::dilation, attr::groups, attr::post_ops});
  Dims weights = op.in(1).shape;
  weights[0] = op.out().shape[1];
  weights[1] = op.in(0).shape[1] / op.attributes[attr::groups];
  Op convolution = make_op(*find_schema(concat("conv", spatial, "d")), attributes,
                           {op.in(0), TensorDesc::dense(op.in(1).dtype, weights), op.has(2) ? op.in(2) : TensorDesc(),
                            op.has(3) ? op.in(3) : TensorDesc()});
  convolution.math = op.math;
  return convolution;
}

// Depthwise ones, and on CPUs any.
void list_turned(const Op& op, OpenclDevice& device, CandidateList& out) {
  const auto convolution = convolution_of(op);
  if (!convolution) return;
  CandidateList list;
  list_conv_depthwise(*convolution, device, list);
  if (device.capabilities().cpu) {
    list_conv_depthwise_rows(*convolution, device, list);
    list_conv_rows(*convolution, device, list);
    list_conv_tiled(*convolution, device, list);
  } else {
    list_conv_depthwise_window(*convolution, device, list);
  }
  const TensorDesc weights = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
  for (const Candidate& way : list.candidates) {
    if (!way.packings.empty() || way.workspace_bytes > 0) continue;
    Candidate candidate = way;
    candidate.implementation = concat("conv_transpose_turned[", way.implementation, "]");
    candidate.inputs.resize(op.inputs.size());
    candidate.inputs[1] = weights;
    candidate.tuning = {};
    candidate.start_ms = way.start_ms + kLaunchMs;
    candidate.workspace_bytes = way.inputs[1].size_bytes();
    candidate.prepare = [&device, op, way, weights] {
      auto kernel = std::make_unique<TurnedKernel>(device, way.prepare());
      kernel->count = op.inputs.size();
      const Addressing turned = with_three_spatial(way.inputs[1]);
      KernelSource source("conv_transpose/conv_turn_around.cl");
      source.tensor("WEI", with_three_spatial(weights)).tensor("DST", turned);
      Launch& launch = kernel->turn.add(source, "conv_turn_around").input(1, "WEI").workspace("DST");
      over_places(launch.index(op.in(1).shape[1]), turned);
      return kernel;
    };
    out.add(std::move(candidate));
  }
}

// ---- one filter for each channel, of any stride ----

struct DepthwiseTile {
  int vector;
  size_t across, group;  // work-items along channels; of a work-group
};
constexpr size_t kDepthwiseGroup = 256;
constexpr int64_t kDepthwisePositions = 8;  // of a work-item: its group's weights are read once for all of them
constexpr int64_t kMostDepthwiseTaps = 49;  // whose weights fit 25 KiB

std::unique_ptr<Kernel> prepare_depthwise_transpose(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                                    const DepthwiseTile& tile) {
  KernelSource source("conv_transpose/conv_transpose_depthwise.cl");
  t.define(source, op);
  source.define("KERNEL_H", t.window.size[1]).define("KERNEL_W", t.window.size[2]);
  source.define("STRIDE_H", t.window.stride[1]).define("STRIDE_W", t.window.stride[2]);
  const size_t lanes = tile.group / tile.across;
  source.define("VECTOR", tile.vector).define("POSITIONS", int(kDepthwisePositions));
  source.define("LANES_X", int(tile.across)).define("LANES_Y", int(lanes));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_transpose_depthwise").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window);
  const int64_t places = t.dst.dims[0] * t.dst.dims[3] * t.dst.dims[4];
  const int64_t groups = divided_up(places, int64_t(lanes) * kDepthwisePositions);
  const int64_t vectors = t.dst.dims[1] / tile.vector;
  launch.global({size_t(divided_up(vectors, int64_t(tile.across))) * tile.across, size_t(groups) * lanes});
  launch.local({tile.across, lanes});
  return kernel;
}

// On GPUs: a processor's work-items would share no local memory that is nearer than another.
void list_depthwise_transpose(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  const int64_t channels = op.in(0).shape[1];
  if (device.capabilities().cpu || rank > 4 || op.attributes[attr::groups] != channels ||
      op.out().shape[1] != channels || !has_quads(op.in(0).dtype) || !has_quads(op.out().dtype))
    return;
  int64_t taps = 1;
  for (int axis = 0; axis < rank - 2; ++axis) {
    const Window w = window_of(op, axis);
    if (w.stride > 1 && w.dilation > 1) return;
    taps *= w.kernel;
  }
  if (taps > kMostDepthwiseTaps) return;
  Candidate candidate = make_candidate(op, "conv_transpose_depthwise");
  candidate.inputs[0] = op.in(0).with_layout(Layout::channels_last(rank));
  candidate.inputs[1] = op.in(1).with_layout(Layout::plain(rank));
  candidate.outputs[0] = op.out().with_layout(Layout::channels_last(rank));
  complete_conv(op, candidate);
  const ConvTensors t(op, candidate);
  DepthwiseTile tile{channels % 4 == 0 ? 4 : channels % 2 == 0 ? 2 : 1, 1, 1};
  while (tile.group * 2 <= std::min(kDepthwiseGroup, device.capabilities().max_work_group)) tile.group *= 2;
  while (tile.across < 32 && tile.across * size_t(tile.vector) < size_t(channels)) tile.across *= 2;
  tile.across = std::min(tile.across, tile.group);
  candidate.efficiency = 0.3;
  candidate.prepare = [&device, op, t, tile] { return prepare_depthwise_transpose(device, op, t, tile); };
  out.add(std::move(candidate));
}

std::unique_ptr<Kernel> prepare_conv_transpose_direct(OpenclDevice& device, const Op& op, const ConvTensors& t) {
  KernelSource source("conv_transpose/conv_transpose_direct.cl");
  t.define(source, op);
  const int64_t places = t.dst.places();
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_transpose_direct").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.channels_per_group()).index(places).global({size_t(places)}).local({64});
  return kernel;
}

// One filter for each channel leaves a matrix product with a single row.
bool single_rows(const Op& op) { return op.attributes[attr::groups] == op.in(0).shape[1] && op.in(0).shape[1] > 1; }

void list_conv_transpose(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (const auto reason = window_refusal(op)) return out.refuse("opencl", *reason);
  const bool units = mma_suits(op, device, out), cpu = device.capabilities().cpu;
  const auto phases = units || !cpu ? phases_of(op) : std::nullopt;
  if (units && phases && !single_rows(op)) add_on_units(op, device, *phases, out);
  const size_t others = out.candidates.size();
  const bool depthwise = op.attributes[attr::groups] == op.in(0).shape[1];
  if (!cpu && phases && !depthwise) add_phases(op, device, *phases, By::local, out);
  if (others > 0) beside_matrix_unit(out, others);
  if (!cpu && phases) add_winograd(op, device, *phases, out);
  list_turned(op, device, out);
  list_depthwise_transpose(op, device, out);
  const size_t direct = out.candidates.size();
  add_per_layout(op, "conv_transpose_direct", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
    complete_conv(op, candidate);
    candidate.efficiency = cpu ? 0.03 : 0.05;
    if (!cpu) candidate.start_ms = kTermMs * double(op.in(0).shape[1] / op.attributes[attr::groups]);
    candidate.prepare = [&device, op, t = ConvTensors(op, candidate)] {
      return prepare_conv_transpose_direct(device, op, t);
    };
    return true;
  });
  if (others > 0) beside_matrix_unit(out, direct);
}

PL_OPENCL_OP("conv_transpose", list_conv_transpose);

}  // namespace

void list_conv_transpose_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (single_rows(op)) return;
  if (const auto phases = phases_of(op)) add_on_units(op, device, *phases, out);
}

}  // namespace pl::opencl
