// batch_norm: elementwise with values for each channel (kernels/batch_norm/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/row_vectors.h"
#include "providers/opencl/program/epilogue.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int kVectors = 5;  // inputs 1 to 4 have a value for each channel

// What these kernels take: the source, statistics, factors and operands that the op has, its epsilon behind them.
Launch& add_kernel(KernelList& kernel, KernelSource& source, const char* name, const Op& op,
                   const Candidate& candidate) {
  source.tensor("SRC", candidate.inputs[0])
      .tensor("DST", candidate.outputs[0])
      .tensor("MEAN", candidate.inputs[1])
      .tensor("VAR", candidate.inputs[2]);
  define_operands(source, op);
  if (op.has(3)) source.tensor("WEIGHT", candidate.inputs[3]);
  if (op.has(4)) source.tensor("BIAS", candidate.inputs[4]);
  Launch& launch = kernel.add(source, name).input(0, "SRC").output(0, "DST").input(1, "MEAN").input(2, "VAR");
  if (op.has(3)) launch.input(3, "WEIGHT");
  if (op.has(4)) launch.input(4, "BIAS");
  pass_operands(launch, op);
  return launch.scalar(cl_float(op.attributes[attr::eps]));
}

// The vectors of a value for each channel, in their only layout.
void vectors_plain(const Op& op, Candidate& candidate) {
  for (int i = 1; i < kVectors; ++i)
    if (op.has(i)) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(1));
}

std::unique_ptr<Kernel> prepare_batch_norm(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  KernelSource source("batch_norm/batch_norm_direct.cl");
  auto kernel = std::make_unique<KernelList>(device);
  over_places(add_kernel(*kernel, source, "batch_norm_direct", op, candidate), Addressing(candidate.outputs[0]));
  return kernel;
}

// Positions a work-item of batch_norm_quad takes: several loads on their way, and the factors made once for all.
constexpr size_t kQuadRows = 4;

// `run`: channels that lie side by side, all of them or a block.
std::unique_ptr<Kernel> prepare_quads(OpenclDevice& device, const Op& op, const Candidate& candidate, int64_t run,
                                      int vector) {
  const int64_t channels = op.in(0).shape[1], blocks = channels / run;
  int64_t positions = op.in(0).elements() / channels;  // of a block
  if (blocks > 1) positions /= op.in(0).shape[0];
  KernelSource source("batch_norm/batch_norm_quad.cl");
  source.define("ROWS", int64_t(kQuadRows)).define("VECTOR", vector);
  std::vector<size_t> global{size_t(run / vector), (size_t(positions) + kQuadRows - 1) / kQuadRows};
  if (blocks > 1) {
    source.define("BLOCKS", blocks);
    global.push_back(size_t(op.in(0).shape[0] * blocks));
  }
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = add_kernel(*kernel, source, "batch_norm_quad", op, candidate).index(run).index(positions);
  std::vector<size_t> group = group_of_quads(global[0]);
  group.resize(global.size());
  launch.global(global).local(device.capabilities().cpu ? group_of_vectors(device, global) : group);
  return kernel;
}

// Channels innermost, or in blocks.
void list_quads(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  const bool cpu = device.capabilities().cpu;
  if (x.rank() < 2 || !has_quads(x.dtype) || x.shape[1] % 4 || x.elements() == 0) return;
  Candidate base = make_candidate(op, "batch_norm_quad");
  vectors_plain(op, base);
  std::vector<Layout> layouts = {Layout::channels_last(x.rank())};
  if (x.rank() > 2) layouts = layouts_to_try(op, x);
  for (const Layout& layout : layouts) {
    Candidate candidate = base;
    candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, layout);
    candidate.outputs[0] = candidate.inputs[0];
    place_operands(op, candidate);
    const Addressing src(candidate.inputs[0]);
    const auto [dim, block] = src.unit();
    const int64_t run = block ? block : x.shape[1];
    // Blocks that are whole, images outermost.
    const bool in_blocks = src.inner.size() == 1 && x.shape[1] % run == 0 && src.order[0] == 0 && src.order[1] == 1;
    if (dim != 1 || !(layout == Layout::channels_last(x.rank()) || in_blocks)) continue;
    const int vector = vector_of_channels(device, run);
    if (!vector) continue;
    candidate.efficiency = cpu ? 0.5 : efficiency_of_quads(device);
    candidate.prepare = [&device, op, candidate, run, vector] {
      return prepare_quads(device, op, candidate, run, vector);
    };
    out.add(std::move(candidate));
  }
}

// ---- channels first, on GPUs

constexpr int64_t kPlaneSteps = 4;  // pieces a work-item of batch_norm_planes takes

void list_planes(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (device.capabilities().cpu || x.rank() < 3 || !has_quads(x.dtype) || x.elements() == 0) return;
  Candidate candidate = make_candidate(op, "batch_norm_planes");
  vectors_plain(op, candidate);
  candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, Layout::plain(x.rank()));
  candidate.outputs[0] = candidate.inputs[0];
  place_operands(op, candidate);
  const Addressing src(candidate.inputs[0]);
  const int64_t planes = x.shape[0] * x.shape[1], positions = x.elements() / planes;
  const int piece = piece_of(positions, int64_t(size_of(x.dtype)));
  if (!narrow(src)) return;
  candidate.efficiency = piece * int64_t(size_of(x.dtype)) >= 8 ? 0.8 : 0.5;
  candidate.prepare = [&device, op, candidate, planes, positions, piece] {
    KernelSource source("batch_norm/batch_norm_planes.cl");
    source.define("PIECE", piece).define("STEPS", kPlaneSteps);
    const int64_t pieces = positions / piece, items = (pieces + kPlaneSteps - 1) / kPlaneSteps;
    auto kernel = std::make_unique<KernelList>(device);
    Launch& launch = add_kernel(*kernel, source, "batch_norm_planes", op, candidate);
    launch.scalar(Divisor(items)).scalar(Divisor(op.in(0).shape[1])).scalar(cl_int(pieces));
    launch.scalar(cl_int(items * planes)).global({size_t(items * planes)}).local({128});
    return kernel;
  };
  out.add(std::move(candidate));
}

// Positions side by side, on CPUs.
void list_positions(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!device.capabilities().cpu || x.rank() < 3) return;
  for (const TensorDesc& input : op.inputs)
    if (input.present && !has_quads(input.dtype)) return;
  std::vector<int> positions;
  for (int dim = 2; dim < x.rank(); ++dim) positions.push_back(dim);
  add_per_layout(op, "batch_norm_vectors", out, [&](Candidate& candidate) {
    const auto rows = row_vectors(device, candidate.inputs[0], positions);
    if (!rows || rows->across) return false;
    // A row's number says its channel where images do not lie within channels.
    if (x.shape[0] > 1 && candidate.inputs[0].layout.order(0) != 0) return false;
    vectors_plain(op, candidate);
    place_operands(op, candidate);
    candidate.in_place = 0;  // what the last vector of a row has met before, it reads and writes again
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, op, rows = *rows] {
      KernelSource source("batch_norm/batch_norm_vectors.cl");
      source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("DST_DTYPE", name_of(op.out().dtype));
      const char* const names[] = {"", "MEAN_DTYPE", "VAR_DTYPE", "WEIGHT_DTYPE", "BIAS_DTYPE"};
      for (int i : {1, 2, 3, 4})
        if (op.has(i)) source.define(names[i], name_of(op.in(i).dtype));
      define_operands(source, op);
      rows.define(source);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "batch_norm_vectors").input(0).output(0);
      for (int i : {1, 2, 3, 4})
        if (op.has(i)) launch.input(i);
      pass_operands(launch, op);
      rows.walk(launch).scalar(cl_float(op.attributes[attr::eps])).index(op.in(0).shape[1]);
      rows.global(launch, device);
      return kernel;
    };
    return true;
  });
}

void list_batch_norm(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_quads(op, device, out);
  list_positions(op, device, out);
  list_planes(op, device, out);
  add_per_layout(op, "batch_norm_direct", out, [&](Candidate& candidate) {
    vectors_plain(op, candidate);
    place_operands(op, candidate);
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare_batch_norm(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("batch_norm", list_batch_norm);

}  // namespace
}  // namespace pl::opencl
