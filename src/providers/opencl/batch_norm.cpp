// batch_norm: elementwise with values for each channel (kernels/batch_norm/).
#include "providers/opencl/epilogue.h"
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"
#include "providers/opencl/quads.h"

namespace pl::opencl {
namespace {

// What both kernels take: the source, statistics and factors that the op has, its epsilon behind them.
Launch& add_kernel(KernelList& kernel, KernelSource& source, const char* name, const Op& op,
                   const Candidate& candidate) {
  source.tensor("SRC", candidate.inputs[0])
      .tensor("DST", candidate.outputs[0])
      .tensor("MEAN", candidate.inputs[1])
      .tensor("VAR", candidate.inputs[2]);
  define_activation(source, op);
  if (op.has(3)) source.tensor("WEIGHT", candidate.inputs[3]);
  if (op.has(4)) source.tensor("BIAS", candidate.inputs[4]);
  Launch& launch = kernel.add(source, name).input(0, "SRC").output(0, "DST").input(1, "MEAN").input(2, "VAR");
  if (op.has(3)) launch.input(3, "WEIGHT");
  if (op.has(4)) launch.input(4, "BIAS");
  return launch.scalar(cl_float(op.attributes.number("eps")));
}

std::unique_ptr<Kernel> prepare_batch_norm(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  KernelSource source("batch_norm/batch_norm_direct.cl");
  auto kernel = std::make_unique<KernelList>(device);
  over_places(add_kernel(*kernel, source, "batch_norm_direct", op, candidate), Addressing(candidate.outputs[0]));
  return kernel;
}

// Positions a work-item of batch_norm_quad takes: several loads on their way, and the factors made once for all.
constexpr size_t kQuadRows = 4;

std::unique_ptr<Kernel> prepare_quads(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int64_t channels = op.in(0).shape[1], positions = op.in(0).elements() / channels;
  KernelSource source("batch_norm/batch_norm_quad.cl");
  source.define("ROWS", int64_t(kQuadRows));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = add_kernel(*kernel, source, "batch_norm_quad", op, candidate).index(channels).index(positions);
  const std::vector<size_t> group = group_of_quads(size_t(channels) / 4);
  launch.global({size_t(channels) / 4, (size_t(positions) + kQuadRows - 1) / kQuadRows}).local({group[0], group[1]});
  return kernel;
}

// Channels innermost, in fours.
void list_quads(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (x.rank() < 2 || !has_quads(x.dtype) || x.shape[1] % 4 || x.elements() == 0) return;
  Candidate candidate = make_candidate(op, "batch_norm_quad");
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    if (!op.has(i)) continue;
    if (!has_quads(op.in(int(i)).dtype)) return;
    candidate.inputs[i] = op.in(int(i)).with_layout(Layout::plain(1));
  }
  candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, Layout::channels_last(x.rank()));
  candidate.outputs[0] = candidate.inputs[0];
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, op, candidate] { return prepare_quads(device, op, candidate); };
  out.add(std::move(candidate));
}

// The vectors of a value for each channel, in their only layout.
void vectors_plain(const Op& op, Candidate& candidate) {
  for (size_t i = 1; i < candidate.inputs.size(); ++i)
    if (candidate.inputs[i].present)
      candidate.inputs[i] = op.in(int(i)).with_layout(Layout::plain(op.in(int(i)).rank()));
}

void list_batch_norm(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_quads(op, device, out);
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
