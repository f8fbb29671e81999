// cross_entropy and cross_entropy_backward (kernels/cross_entropy/).
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

struct Loss {
  int64_t rows, classes;  // positions
  bool mean, none;
  int weight;  // the input that it is
  int group, total_lanes;

  Loss(const Op& op, int weight, const OpenclDevice& device)
      : rows(op.in(1).elements()),
        classes(op.in(0).shape[1]),
        mean(op.attributes[attr::reduction] == "mean"),
        none(op.attributes[attr::reduction] == "none"),
        weight(op.has(weight) ? weight : -1),
        group(row_group(device, classes)),
        total_lanes(row_group(device, rows)) {}

  void define(KernelSource& source, const Op& op, const Candidate& candidate) const {
    source.tensor("SRC", as_rows(candidate.inputs[0], {1})).define("TARGET_DTYPE", name_of(op.in(1).dtype));
    if (weight >= 0) source.define("WEIGHT_DTYPE", name_of(op.in(weight).dtype));
    source.define("GROUP", group).define("TOTAL_LANES", total_lanes);
    source.define("NONE", none ? 1 : 0).define("MEAN", mean ? 1 : 0);
  }
  Launch& pass_weight(Launch& launch) const { return weight >= 0 ? launch.input(weight) : launch; }
  void over_rows(Launch& launch) const {
    launch.index(rows).global({size_t(rows * group)}).local({size_t(group > 1 ? group : 64)});
  }
  void over_total(Launch& launch) const {
    launch.index(rows).global({size_t(total_lanes)}).local({size_t(total_lanes)});
  }
};

cl_long ignored(const Op& op) { return op.attributes[attr::ignore_index]; }
cl_float smoothing(const Op& op) { return cl_float(op.attributes[attr::label_smoothing]); }

std::unique_ptr<Kernel> prepare_forward(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Loss loss(op, 2, device);
  KernelSource source("cross_entropy/cross_entropy.cl");
  loss.define(source, op, candidate);
  source.define("DST_DTYPE", name_of(op.out().dtype));
  source.define("LOSSES_DTYPE", loss.none ? name_of(op.out().dtype) : "f32");
  auto kernel = std::make_unique<KernelList>(device);
  Launch& rows = loss.pass_weight(kernel->add(source, "cross_entropy_rows").input(0, "SRC").input(1));
  loss.none ? rows.output(0) : rows.workspace();
  loss.over_rows(rows.scalar(ignored(op)).scalar(smoothing(op)));
  if (!loss.none) loss.over_total(kernel->add(source, "cross_entropy").workspace().output(0));
  return kernel;
}

std::unique_ptr<Kernel> prepare_cross_entropy_backward(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Loss loss(op, 3, device);
  const Addressing dst = as_rows(candidate.outputs[0], {1});
  KernelSource source("cross_entropy/cross_entropy_backward.cl");
  loss.define(source, op, candidate);
  source.tensor("DST", dst).define("GRAD_DTYPE", name_of(op.in(2).dtype));
  auto kernel = std::make_unique<KernelList>(device);
  add_zero_padding(*kernel, dst);
  if (loss.mean) {
    Launch& divisor = loss.pass_weight(kernel->add(source, "cross_entropy_divisor").input(1)).workspace();
    loss.over_total(divisor.scalar(ignored(op)).index(loss.classes));
  }
  Launch& rows = kernel->add(source, "cross_entropy_backward").input(0, "SRC").input(1).input(2);
  loss.pass_weight(rows).workspace().output(0, "DST").scalar(ignored(op)).scalar(smoothing(op));
  loss.over_rows(rows);
  return kernel;
}

// x, and its gradient, in any layout; what has an element for each position or class in its plain one.
void list_losses(const Op& op, OpenclDevice& device, CandidateList& out, size_t workspace_bytes,
                 std::unique_ptr<Kernel> (*prepare)(OpenclDevice&, const Op&, const Candidate&)) {
  add_per_layout(op, op.schema->name, out, [&](Candidate& candidate) {
    for (size_t i = 1; i < candidate.inputs.size(); ++i)
      if (op.has(int(i))) candidate.inputs[i] = op.in(int(i)).with_layout(Layout::plain(op.in(int(i)).rank()));
    if (op.out().shape != op.in(0).shape) candidate.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
    candidate.workspace_bytes = workspace_bytes;
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, candidate, prepare] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("cross_entropy", [](const Op& op, OpenclDevice& device, CandidateList& out) {
  const bool none = op.attributes[attr::reduction] == "none";
  list_losses(op, device, out, none ? 0 : size_t(2 * op.in(1).elements()) * sizeof(float), prepare_forward);
});
PL_OPENCL_OP("cross_entropy_backward", [](const Op& op, OpenclDevice& device, CandidateList& out) {
  list_losses(op, device, out, sizeof(float), prepare_cross_entropy_backward);
});

}  // namespace
}  // namespace pl::opencl
