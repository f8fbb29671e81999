// layer_norm_backward (and rms_norm's) and group_norm_backward (kernels/normalise/layer_norm_backward.cl).
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int64_t kGroup = 256, kMostAcross = 32;                         // work-items
constexpr int64_t kGroupsOfUnit = 4, kLeastTerms = 8, kMostTerms = 2048;  // terms: of a work-item's sums

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

struct NormRows {
  bool per_channel, centred;
  int64_t size = 1, rows, groups = 1, positions = 1, weights = 1;
  int64_t terms, parts, terms_of_part;  // of a weight's sums
  int64_t lanes_x = 1, lanes_y = 1;
  int group;

  NormRows(const Op& op, const OpenclDevice& device)
      : per_channel(op.schema->kind == "group_norm_backward"), centred(per_channel || op.attributes.flag("centred")) {
    const Dims& shape = op.in(0).shape;
    if (per_channel) {
      groups = op.attributes.integer("num_groups");
      for (int dim = 2; dim < shape.size(); ++dim) positions *= shape[dim];
      weights = shape[1];
      size = weights / groups * positions;
    } else {
      for (int64_t dim : op.attributes.integers("normalized_shape")) size *= dim;
      weights = size;
    }
    rows = op.in(0).elements() / size;
    terms = per_channel ? rows / groups * positions : rows;
    group = row_group(device, size);
    if (!device.capabilities().cpu) {
      const int64_t most = std::min<int64_t>(kGroup, int64_t(device.capabilities().max_work_group));
      // Neighbours read neighbours: weights of a row, or positions of a channel.
      while (!per_channel && lanes_x < kMostAcross && lanes_x < weights) lanes_x *= 2;
      while (lanes_x * lanes_y * 2 <= most && lanes_y < terms) lanes_y *= 2;
    }
    const int64_t wanted =
        divided_up(kGroupsOfUnit * device.capabilities().compute_units, divided_up(weights, lanes_x));
    parts =
        std::max(std::min(wanted, divided_up(terms, lanes_y * kLeastTerms)), divided_up(terms, lanes_y * kMostTerms));
    terms_of_part = divided_up(terms, parts);
    parts = divided_up(terms, terms_of_part);
  }
  size_t workspace_bytes() const { return size_t(2 * (rows + parts * weights)) * sizeof(float); }
  Launch& pass(Launch& launch) const {
    const cl_int shape[] = {cl_int(rows),    cl_int(size),  cl_int(groups),       cl_int(positions),
                            cl_int(weights), cl_int(parts), cl_int(terms_of_part)};
    return launch.raw(shape, sizeof shape);
  }
};

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const NormRows& rows) {
  KernelSource source("normalise/layer_norm_backward.cl");
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("GRAD_DTYPE", name_of(op.in(1).dtype));
  source.define("DST_DTYPE", name_of(op.out().dtype)).define("DWEIGHT_DTYPE", name_of(op.out(1).dtype));
  if (op.has(2)) source.define("WEIGHT_DTYPE", name_of(op.in(2).dtype));
  source.define("CENTRED", rows.centred ? 1 : 0).define("PER_CHANNEL", rows.per_channel ? 1 : 0);
  source.define("GROUP", rows.group).define("LANES_X", rows.lanes_x).define("LANES_Y", rows.lanes_y);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& first = kernel->add(source, "layer_norm_backward").input(0).input(1);
  if (op.has(2)) first.input(2);
  rows.pass(first.output(0).workspace()).scalar(cl_float(op.attributes.number("eps")));
  first.global({size_t(rows.rows * rows.group)}).local({size_t(rows.group > 1 ? rows.group : 64)});
  Launch& sums = kernel->add(source, "layer_norm_backward_parts");
  rows.pass(sums.input(0).input(1).workspace());
  sums.global({size_t(divided_up(rows.weights, rows.lanes_x) * rows.lanes_x), size_t(rows.parts * rows.lanes_y)})
      .local({size_t(rows.lanes_x), size_t(rows.lanes_y)});
  Launch& join = kernel->add(source, "layer_norm_backward_join").workspace().output(1);
  if (rows.centred) join.output(2);
  rows.pass(join).global({size_t(rows.weights)}).local({64});
  return kernel;
}

void list_norm_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  Candidate candidate = make_candidate(op, op.schema->kind);
  for (auto* tensors : {&candidate.inputs, &candidate.outputs})
    for (TensorDesc& desc : *tensors)
      if (desc.present) desc = desc.with_layout(Layout::plain(desc.rank()));
  if (!narrow(Addressing(candidate.inputs[0])))
    return out.refuse("opencl", op.schema->name + ": needs indices of more than 31 bits");
  const NormRows rows(op, device);
  candidate.workspace_bytes = rows.workspace_bytes();
  candidate.efficiency = device.capabilities().cpu ? 0.1 : 0.3;
  candidate.prepare = [&device, op, rows] { return prepare(device, op, rows); };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("layer_norm_backward", list_norm_backward);
PL_OPENCL_OP("group_norm_backward", list_norm_backward);

}  // namespace
}  // namespace pl::opencl
