// conv on matrix units: an implicit matrix product over channels-last tensors (kernels/conv/conv_fwd_mma.cl).
#include <algorithm>
#include <cmath>

#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"

namespace pl::opencl {
namespace {

// Whether each position reads the one that it writes.
bool reads_where_it_writes(const ConvTensors& t) {
  if (!t.pointwise()) return false;
  for (int axis = t.deep() ? 0 : 1; axis < 3; ++axis)
    if (t.window.stride[axis] != 1 || t.src.dims[size_t(2 + axis)] != t.dst.dims[size_t(2 + axis)]) return false;
  return true;
}

MmaProblem problem_of(const ConvTensors& t) {
  MmaProblem problem;
  problem.dtype = t.src.dtype;
  problem.rows = t.pixels();
  problem.columns = t.out_channels_per_group();
  problem.products = t.phases.empty() ? t.groups * t.stack : int64_t(t.phases.size());
  problem.stacked = t.stack > 1;
  problem.row_groups = t.row_groups;
  problem.run = t.groups == 1 ? t.src.padded(1) : t.channels_per_group();
  problem.runs = t.taps();
  problem.gathered = t.groups == 1 && t.src.block(1) == problem.chunk_elements() && problem.run == t.src.block(1);
  problem.in_order = !problem.gathered && reads_where_it_writes(t);
  return problem;
}

std::unique_ptr<Kernel> prepare_conv_mma(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                         const MmaPlan& plan) {
  const MmaProblem problem = problem_of(t);
  KernelSource source("conv/conv_fwd_mma.cl");
  t.define(source, op);
  plan.define(source, problem, device);
  source.define("SCATTERED", t.scattered() ? 1 : 0).define("DEPTH", t.deep() ? 1 : 0);
  if (!t.phases.empty()) source.define("PHASES", int64_t(t.phases.size()));
  if (t.row_groups > 0) source.tensor("OFF", TensorDesc::dense(op.in(2).dtype, op.in(2).shape)).define("GROUPED", 1);
  source.define("POINTWISE", t.pointwise() && !problem.gathered ? 1 : 0);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "conv_fwd_mma").input(0, "SRC").input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  launch.scalar(t.window).index(t.out_channels_per_group()).index(t.pixels());
  if (plan.parts > 1) launch.workspace().scalar(cl_int(plan.steps_per_part));
  if (!t.phases.empty()) {  // phases_arg
    std::vector<cl_int> numbers;
    for (const ConvTensors::Shift& phase : t.phases) numbers.insert(numbers.end(), phase.begin, phase.begin + 3);
    for (const ConvTensors::Shift& phase : t.phases) numbers.push_back(cl_int(phase.dst));
    numbers.push_back(cl_int(t.out_channels() * t.taps() * t.wei.padded(1)));
    launch.raw(numbers.data(), numbers.size() * sizeof(cl_int));
  }
  if (t.row_groups > 0) launch.input(2, "OFF");
  plan.size(launch, problem);
  if (plan.parts > 1) add_sum_of_parts(*kernel, op, t.dst, t.epilogue, problem, plan.parts, t.scattered());
  return kernel;
}

// Rounds weights to tf32 in each run, then multiplies.
class RoundingKernel : public Kernel {
 public:
  RoundingKernel(OpenclDevice& device, std::unique_ptr<Kernel> product) : round(device), product_(std::move(product)) {}
  void run(const KernelArguments& arguments) override {
    round.run(arguments);
    product_->run(arguments.with(weights_from_workspace(arguments, count).data(), arguments.outputs));
  }
  KernelList round;
  size_t count = 0;  // inputs of the op

 private:
  std::unique_ptr<Kernel> product_;
};

// For weights that a program computes: a candidate that packs nothing.
void add_rounding(const Op& op, OpenclDevice& device, const Candidate& base, ConvTensors t, const MmaPlan& plan,
                  CandidateList& out) {
  const size_t behind = (plan.parts_bytes(problem_of(t)) + 255) / 256 * 256;
  const size_t bytes = base.inputs[1].size_bytes();
  t.wei.offset = int64_t(behind / sizeof(float));
  Candidate candidate = base;
  candidate.implementation = plan.name("conv_fwd_mma") + "+rounds";
  candidate.efficiency = 0.9 * plan.efficiency;
  candidate.busy_ms = plan.whole_ms / candidate.efficiency;
  candidate.workspace_bytes = behind + bytes;
  candidate.prepare = [&device, op, t, plan, bytes, inputs = base.inputs.size()] {
    auto kernel = std::make_unique<RoundingKernel>(device, prepare_conv_mma(device, op, t, plan));
    kernel->count = inputs;
    const size_t count = bytes / sizeof(float);
    Launch& launch = kernel->round.add(KernelSource("common/round_to_tf32.cl"), "round_to_tf32").input(1).workspace();
    launch.scalar(cl_ulong(count)).scalar(cl_ulong(t.wei.offset)).global({count}).local({128});
    return kernel;
  };
  out.add(std::move(candidate));
}

}  // namespace

void list_conv_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  // Pieces of 16 bytes hold channels; of a first layer's few channels each position's are padded to one piece.  Other
  // channels are copied as they lie, by as many bytes as divide them.
  const int64_t piece = 16 / int64_t(size_of(op.in(0).dtype));
  const bool few = op.in(0).shape[1] <= piece && op.attributes[attr::groups] == 1;
  const Layout layout = few ? Layout::channels_blocked(rank, int(piece)) : Layout::channels_last(rank);
  // Weights are packed, so that theirs are whole pieces whatever the channels are.
  const bool whole = few || op.in(1).shape[1] % piece == 0;
  const Layout weights = whole ? layout : channels_last_padded(rank, piece);
  const auto base_of = [&](const Layout& src, const Layout& dst) {
    Candidate base = make_candidate(op, "conv_fwd_mma");
    base.inputs[0] = TensorDesc::dense(op.in(0).dtype, op.in(0).shape, src);
    base.inputs[1] = op.in(1).with_layout(weights);
    base.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, dst);
    complete_conv(op, base);
    return base;
  };
  const Layout plain = Layout::channels_last(rank), padded = channels_last_padded(rank, piece);
  const Candidate base = base_of(layout, plain);
  const ConvTensors tensors(op, base);
  add_conv_mma(op, device, base, tensors, out);
  if (tensors.groups > 1) return;
  // There are no copies of 2 bytes, and those of 4 are most of the time where windows read positions again: channels
  // are padded in memory instead, and so are results for who reads them next.
  const int64_t least = reads_where_it_writes(tensors) ? 4 : 8;
  const auto ragged = [&](int64_t channels) {
    return channels > piece && channels * int64_t(size_of(op.in(0).dtype)) % least != 0;
  };
  const bool from = ragged(tensors.channels()), to = ragged(tensors.out_channels()) && operand_count(op) == 0;
  const auto add = [&](const Layout& src, const Layout& dst) {
    const Candidate like = base_of(src, dst);
    add_conv_mma(op, device, like, ConvTensors(op, like), out);
  };
  if (from) add(padded, plain);
  if (to) add(layout, padded);
  if (from && to) add(padded, padded);
}

// Of few rows each weight is read once, from memory and not from a cache, and each step waits for its own: as long as
// products of one row took on an H200, 0.4 us a step of 64 columns and 0.65 of 96, of 128 bytes each.
double waiting_ms(const MmaPlan& plan, const MmaProblem& problem, const OpenclDevice& device) {
  constexpr int64_t kFewRows = 16;
  constexpr double kFirst = 2.5e-3, kLeast = 0.4e-3, kByte = kLeast / (64 * 128);
  if (problem.rows > kFewRows) return 0;
  const double step = std::max(kLeast, kByte * double(plan.tile.columns) * double(plan.tile.chunks) * 16);
  const double groups = double(problem.tiles(plan.tile) * plan.parts);
  const double rounds = std::ceil(groups / (2 * std::max(1.0, double(device.capabilities().compute_units))));
  return kFirst + step * rounds * double(plan.steps_per_part);
}

void add_conv_mma(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, CandidateList& out) {
  if (operand_count(op) > 1)
    return out.refuse("opencl", concat(op.schema->name, ": matrix units: post_ops is ", to_text(post_ops_of(op)),
                                       ", expected one input that is added or multiplied by"));
  const MmaProblem problem = problem_of(t);
  const auto add = [&](const MmaPlan& plan) {
    Candidate candidate = base;
    candidate.implementation = plan.name("conv_fwd_mma");
    candidate.efficiency = plan.efficiency;
    candidate.busy_ms = plan.whole_ms / plan.efficiency;
    if (candidate.busy_ms > 0) candidate.busy_ms = std::max(candidate.busy_ms, waiting_ms(plan, problem, device));
    candidate.tuning = plan.tuning;
    candidate.workspace_bytes = plan.parts_bytes(problem);
    if (plan.right_rounded && !t.made) candidate.packings = {pack_tf32(device, base.inputs[1], 1)};
    candidate.prepare = [&device, op, t, plan] { return prepare_conv_mma(device, op, t, plan); };
    out.add(std::move(candidate));
  };
  const bool constant = !t.made && op.schema->role_of(1) == Role::constant;
  bool first = true;
  for (MmaPlan& plan : mma_plans(device, problem, op.math, out.whole_space)) {
    // sum_of_parts leaves padding alone, and knows nothing of groups
    if (plan.parts > 1 && (t.dst.block(1) > 1 || !t.phases.empty() || t.row_groups > 0)) continue;
    plan.right_rounded = (constant || t.made) && plan.tf32;
    add(plan);
    if (constant && plan.tf32 && first) add_rounding(op, device, base, t, plan, out);
    first = false;
  }
  if (!t.made && t.dst.block(1) == 1 && t.row_groups == 0) add_conv_stream(op, device, base, t, out);
}

}  // namespace pl::opencl
