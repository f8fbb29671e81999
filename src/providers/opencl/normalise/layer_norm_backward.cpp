// layer_norm_backward, rms_norm's, too (kernels/normalise/layer_norm_backward.cl, layer_norm_backward_rows.cl,
// layer_norm_backward_join.cl).
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/pointwise/joinable_copy.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int64_t kGroup = 256, kMostAcross = 32;                       // work-items
constexpr int64_t kGroupsOfUnit = 4, kLeastRows = 8, kMostRows = 2048;  // rows: of a work-item's sums
constexpr int64_t kGroupsThatHold = 2;                                  // of a unit, where they hold rows

struct NormRows {
  bool centred;
  int64_t size = 1, rows;
  int64_t parts, rows_of_part;  // of a weight's sums
  int64_t lanes_x = 1, lanes_y = 1;
  int group;
  int64_t held = 0;           // fours of a row that a work-item holds; 0: none
  int64_t rows_of_group = 1;  // held at a time

  NormRows(const Op& op, const OpenclDevice& device) : centred(op.attributes[attr::centred]) {
    for (int64_t dim : op.attributes[attr::normalized_shape]) size *= dim;
    rows = op.in(0).elements() / size;
    group = row_group(device, size);
    if (!device.capabilities().cpu) {
      const int64_t most = std::min<int64_t>(kGroup, int64_t(device.capabilities().max_work_group));
      while (lanes_x < kMostAcross && lanes_x < size) lanes_x *= 2;
      while (lanes_x * lanes_y * 2 <= most && lanes_y < rows) lanes_y *= 2;
    }
    const int64_t wanted = divided_up(kGroupsOfUnit * device.capabilities().compute_units, divided_up(size, lanes_x));
    parts = std::max(std::min(wanted, divided_up(rows, lanes_y * kLeastRows)), divided_up(rows, lanes_y * kMostRows));
    rows_of_part = divided_up(rows, parts);
    parts = divided_up(rows, rows_of_part);
  }
  // Takes rows as work-items hold them, four elements an access; false where they are none for that.
  bool hold(const OpenclDevice& device) {
    constexpr int64_t kFew = 4, kMost = 8;  // fours of a row in the registers of a work-item
    const int64_t fours = size / 4, most = std::min<int64_t>(kGroup, int64_t(device.capabilities().max_work_group));
    if (size % 4 || device.capabilities().cpu) return false;
    group = 1;
    while (group * 2 <= most && group * kFew < fours) group *= 2;
    held = divided_up(fours, group);
    if (held > kMost) return false;
    while (group * rows_of_group * 2 <= most && rows_of_group < rows) rows_of_group *= 2;
    const int64_t times = divided_up(rows, rows_of_group);  // that a work-group takes rows_of_group rows, in all
    rows_of_part = divided_up(times, kGroupsThatHold * device.capabilities().compute_units) * rows_of_group;
    parts = divided_up(rows, rows_of_part);
    return true;
  }
  size_t workspace_bytes() const { return size_t(2 * (rows_kept() + parts * size)) * sizeof(float); }
  int64_t rows_kept() const { return held ? 0 : rows; }  // whose mean and deviation lie before the sums of weights
  Launch& pass(Launch& launch) const {
    const cl_int shape[] = {cl_int(rows), cl_int(size), cl_int(parts), cl_int(rows_of_part)};
    return launch.raw(shape, sizeof shape);
  }
};

KernelSource source_of(const char* file, const Op& op, const NormRows& rows) {
  KernelSource source(file);
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("GRAD_DTYPE", name_of(op.in(1).dtype));
  source.define("DST_DTYPE", name_of(op.out().dtype)).define("CENTRED", rows.centred ? 1 : 0);
  if (op.has(2)) source.define("WEIGHT_DTYPE", name_of(op.in(2).dtype));
  source.define("GROUP", rows.group);
  return source;
}

// dst, and the sums of weights of each part of the rows.
void add_rows(KernelList& kernel, const Op& op, const NormRows& rows) {
  KernelSource source = source_of("normalise/layer_norm_backward.cl", op, rows);
  source.define("LANES_X", rows.lanes_x).define("LANES_Y", rows.lanes_y);
  Launch& first = kernel.add(source, "layer_norm_backward").input(0).input(1);
  if (op.has(2)) first.input(2);
  rows.pass(first.output(0).workspace()).scalar(cl_float(op.attributes[attr::eps]));
  first.global({size_t(rows.rows * rows.group)}).local({size_t(rows.group > 1 ? rows.group : 64)});
  Launch& sums = kernel.add(source, "layer_norm_backward_parts");
  rows.pass(sums.input(0).input(1).workspace());
  const int64_t across = divided_up(rows.size, rows.lanes_x) * rows.lanes_x;
  sums.global({size_t(across), size_t(rows.parts * rows.lanes_y)}).local({size_t(rows.lanes_x), size_t(rows.lanes_y)});
}

// The same in one launch, of rows that work-items hold.
void add_held_rows(KernelList& kernel, const Op& op, const NormRows& rows) {
  KernelSource source = source_of("normalise/layer_norm_backward_rows.cl", op, rows);
  source.define("ROWS", rows.rows_of_group).define("HELD", rows.held);
  Launch& launch = kernel.add(source, "layer_norm_backward_rows").input(0).input(1);
  if (op.has(2)) launch.input(2);
  launch.output(0).workspace().scalar(cl_int(rows.rows)).scalar(cl_int(rows.size)).scalar(cl_int(rows.rows_of_part));
  launch.scalar(cl_float(op.attributes[attr::eps]));
  launch.global({size_t(rows.group), size_t(rows.parts * rows.rows_of_group)});
  launch.local({size_t(rows.group), size_t(rows.rows_of_group)});
}

std::unique_ptr<Kernel> prepare_layer_norm_backward(OpenclDevice& device, const Op& op, const NormRows& rows) {
  std::vector<std::optional<ComputationPlan>> ends;
  for (int k = 0; k < (rows.centred ? 2 : 1); ++k)  // parts[part][k][weight]
    ends.push_back(plan_joinable_sum(device, rows.size, 2 * rows.rows_kept() + k * rows.size, rows.parts, 2 * rows.size,
                                     op.out(1).dtype));
  auto kernel = std::make_unique<KernelInParts>(device, std::move(ends));
  rows.held ? add_held_rows(kernel->sums, op, rows) : add_rows(kernel->sums, op, rows);
  const int64_t lanes_x = device.capabilities().cpu ? 64 : 32, lanes_y = device.capabilities().cpu ? 1 : 8;
  KernelSource source("normalise/layer_norm_backward_join.cl");
  source.define("DWEIGHT_DTYPE", name_of(op.out(1).dtype)).define("CENTRED", rows.centred ? 1 : 0);
  source.define("LANES_X", lanes_x).define("LANES_Y", lanes_y);
  Launch& join = kernel->join.add(source, "layer_norm_backward_join").workspace().output(1);
  if (rows.centred) join.output(2);
  join.scalar(cl_int(rows.size)).scalar(cl_int(rows.parts)).scalar(cl_int(2 * rows.rows_kept()));
  join.global({size_t(divided_up(rows.size, lanes_x) * lanes_x), size_t(lanes_y)});
  join.local({size_t(lanes_x), size_t(lanes_y)});
  return kernel;
}

void list_layer_norm_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  Candidate candidate = make_candidate(op, op.schema->kind);
  for (auto* tensors : {&candidate.inputs, &candidate.outputs})
    for (TensorDesc& desc : *tensors)
      if (desc.present) desc = desc.with_layout(Layout::plain(desc.rank()));
  if (!narrow(Addressing(candidate.inputs[0])))
    return out.refuse("opencl", op.schema->name + ": needs indices of more than 31 bits");
  const auto add = [&](const NormRows& rows, const std::string& name, double efficiency) {
    candidate.implementation = name;
    candidate.workspace_bytes = rows.workspace_bytes();
    candidate.ends_later = true;
    candidate.efficiency = device.capabilities().cpu ? 0.1 : efficiency;
    candidate.prepare = [&device, op, rows] { return prepare_layer_norm_backward(device, op, rows); };
    out.add(candidate);
  };
  const NormRows rows(op, device);
  NormRows held = rows;
  const auto fours = [&](const TensorDesc& desc) { return !desc.present || has_quads(desc.dtype); };
  if (fours(op.in(0)) && fours(op.in(1)) && fours(op.out()) && (!op.has(2) || fours(op.in(2))) && held.hold(device))
    add(held, op.schema->kind + "_rows", 0.5);
  add(rows, op.schema->kind, 0.3);
}

PL_OPENCL_OP("layer_norm_backward", list_layer_norm_backward);

}  // namespace
}  // namespace pl::opencl
