// softmax and log_softmax (kernels/softmax/).
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/row_groups.h"
#include "providers/opencl/addressing/row_vectors.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_softmax(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int dim = int(op.attributes[attr::dim]);
  const Addressing dst = as_rows(candidate.outputs[0], {dim});
  const int group = row_group(device, dst.dims[7]);
  KernelSource source("softmax/softmax_rows.cl");
  source.tensor("SRC", as_rows(candidate.inputs[0], {dim})).tensor("DST", dst);
  source.define("GROUP", group).define("LOG", op.attributes[attr::log] ? 1 : 0);
  const int64_t rows = dst.places() / dst.padded(7);
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "softmax_rows")
      .input(0, "SRC")
      .output(0, "DST")
      .index(rows)
      .global({size_t(rows * group)})
      .local({size_t(group > 1 ? group : 64)});
  return kernel;
}

// By vectors, on CPUs.
void list_softmax_vectors(const Op& op, OpenclDevice& device, CandidateList& out) {
  const bool log = op.attributes[attr::log];
  const int dim = int(op.attributes[attr::dim]);
  if (!device.capabilities().cpu || !has_quads(op.in(0).dtype) || !has_quads(op.out().dtype)) return;
  add_per_layout(op, "softmax_vectors", out, [&](Candidate& candidate) {
    const auto rows = row_vectors(device, candidate.inputs[0], std::vector<int>{dim});
    if (!rows) return false;
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, log, rows = *rows, from = op.in(0).dtype, to = op.out().dtype] {
      KernelSource source("softmax/softmax_vectors.cl");
      source.define("SRC_DTYPE", name_of(from)).define("DST_DTYPE", name_of(to)).define("LOG", log ? 1 : 0);
      source.define("KEEP", !log && to == DType::f32 && rows.apart() ? 1 : 0);
      rows.define(source);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "softmax_vectors").input(0).output(0);
      rows.walk(launch);
      rows.global(launch, device);
      return kernel;
    };
    return true;
  });
}

// By work-groups, on GPUs.
void list_softmax_groups(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int dim = int(op.attributes[attr::dim]);
  const DType dtype = op.in(0).dtype;
  if (!offers_row_groups(device, out) || !has_quads(dtype) || op.out().dtype != dtype) return;
  for (const RowWay& way : row_ways(out.whole_space))
    add_per_layout(op, concat("softmax_groups", way.name), out, [&](Candidate& candidate) {
      const TensorDesc& x = candidate.inputs[0];
      const auto rows = row_groups(device, x, axes_of_rows(x, {dim}, AxisKind::row), way, {});
      if (!rows) return false;
      candidate.efficiency = efficiency_of_groups(device, *rows, true);
      candidate.workspace_bytes = way.parts ? rows->stats_bytes(2) : 0;
      candidate.prepare = [&device, rows = *rows, dtype, log = op.attributes[attr::log]] {
        KernelSource source("softmax/softmax_groups.cl");
        source.define("SRC_DTYPE", name_of(dtype)).define("DST_DTYPE", name_of(dtype)).define("LOG", log ? 1 : 0);
        rows.define(source);
        auto kernel = std::make_unique<KernelList>(device);
        const auto count = cl_int(rows.rows);
        if (rows.parts == 1) {
          rows.over_groups(kernel->add(source, "softmax_groups").input(0).output(0).scalar(count));
          return kernel;
        }
        rows.over_groups(kernel->add(source, "softmax_parts").input(0).workspace().scalar(count));
        rows.over_rows(kernel->add(source, "softmax_join").workspace().scalar(count));
        rows.over_groups(kernel->add(source, "softmax_apply").input(0).output(0).workspace().scalar(count));
        return kernel;
      };
      return true;
    });
}

void list_softmax(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(0).rank() == 0) return out.refuse("opencl", op.schema->name + ": a scalar has no dimension to work along");
  list_softmax_vectors(op, device, out);
  list_softmax_groups(op, device, out);
  const int64_t row_size = op.in(0).shape[int(op.attributes[attr::dim])];
  add_per_layout(op, "softmax_rows", out, [&](Candidate& candidate) {
    candidate.efficiency = efficiency_by_rows(device, op.in(0).elements(), row_size, 0.1);
    candidate.prepare = [&device, op, candidate] { return prepare_softmax(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("softmax", list_softmax);

}  // namespace
}  // namespace pl::opencl
