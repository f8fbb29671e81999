// layer_norm and group_norm (kernels/normalise/).
#include <numeric>

#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"
#include "providers/opencl/rows.h"

namespace pl::opencl {
namespace {

struct Rows {
  std::vector<int> last;  // the row's dimensions
  int64_t groups = 1;     // group norm: rows for each combination of the other dimensions
  int64_t size = 1;       // elements of a row
  int64_t count = 1;
};

Rows rows_of(const Op& op) {
  const Dims& shape = op.in(0).shape;
  const bool per_channel = op.schema->kind == "group_norm";
  const int first = per_channel ? 1 : shape.size() - int(op.attributes.integers("normalized_shape").size());
  Rows rows;
  for (int dim = first; dim < shape.size(); ++dim) {
    rows.last.push_back(dim);
    rows.size *= shape[dim];
  }
  if (per_channel) rows.groups = op.attributes.integer("num_groups");
  rows.size /= rows.groups;
  rows.count = op.in(0).elements() / rows.size;
  return rows;
}

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Rows rows = rows_of(op);
  const int group = row_group(device, rows.size);
  const Addressing dst = as_rows(candidate.outputs[0], rows.last);
  auto kernel = std::make_unique<KernelList>(device);
  add_zero_padding(*kernel, dst);
  KernelSource source("normalise/normalise_rows.cl");
  source.tensor("SRC", as_rows(candidate.inputs[0], rows.last)).tensor("DST", dst);
  source.define("GROUP", group).define("ROW_DIMS", int64_t(rows.last.size()));
  source.define("PER_CHANNEL", op.schema->kind == "group_norm" ? 1 : 0);
  const char* const names[] = {"", "WEIGHT", "BIAS"};
  for (int i : {1, 2})
    if (op.has(i)) source.tensor(names[i], TensorDesc::dense(op.in(i).dtype, {op.in(i).elements()}));
  Launch& launch = kernel->add(source, "normalise_rows").input(0, "SRC").output(0, "DST");
  for (int i : {1, 2})
    if (op.has(i)) launch.input(i, names[i]);
  launch.scalar(cl_float(op.attributes.number("eps")))
      .index(rows.groups)
      .index(rows.size)
      .index(rows.count)
      .global({size_t(rows.count * group)})
      .local({size_t(group > 1 ? group : 64)});
  return kernel;
}

void list_normalise(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "normalise_rows", out, [&](Candidate& candidate) {
    for (int i : {1, 2})  // read as one run, the last dimension fastest
      if (op.has(i)) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("layer_norm", list_normalise);
PL_OPENCL_OP("group_norm", list_normalise);

}  // namespace
}  // namespace pl::opencl
