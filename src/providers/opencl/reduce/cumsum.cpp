// cumsum (kernels/cumsum/).
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/row_groups.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

// How the kernels join two elements.
const char* join_of(const Op& op) {
  const std::string& function = op.attributes[attr::function];
  return function == "sum" ? "JOIN_SUM" : function == "prod" ? "JOIN_PRODUCT" : "JOIN_EXPONENTS";
}

// A row by one or more work-groups (cumsum_parts.cl).
struct RowParts {
  static constexpr int64_t kKept = 8;  // as in the kernel
  int64_t lanes = 64, rows, count = 1, length;

  RowParts(const OpenclDevice& device, const Addressing& dst) : rows(dst.places() / dst.padded(7)) {
    const Capabilities& can = device.capabilities();
    while (lanes < 256 && lanes * 2 <= int64_t(can.max_work_group)) lanes *= 2;
    const int64_t tile = lanes * kKept, tiles = divided_up(dst.padded(7), tile);
    const int64_t enough = 2 * int64_t(can.compute_units);
    // More than 1,024 parts would be long to join, before each of them.
    const int64_t wanted = std::min<int64_t>({tiles, divided_up(enough, rows), 1024});
    length = divided_up(tiles, wanted) * tile;
    count = divided_up(dst.padded(7), length);
  }
  size_t workspace_bytes() const { return size_t(rows * count) * sizeof(cl_long); }
};

std::unique_ptr<Kernel> prepare_parts(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int dim = int(op.attributes[attr::dim]);
  const Addressing dst = as_rows(candidate.outputs[0], {dim});
  const RowParts parts(device, dst);
  KernelSource source("cumsum/cumsum_parts.cl");
  source.tensor("SRC", as_rows(candidate.inputs[0], {dim})).tensor("DST", dst).define("LANES", parts.lanes);
  source.define("INTEGERS", is_floating(dst.dtype) ? 0 : 1).define("JOINED_BY", join_of(op));
  auto kernel = std::make_unique<KernelList>(device);
  const auto add = [&](const char* entry) {
    Launch& launch = kernel->add(source, entry).input(0, "SRC").output(0, "DST").workspace();
    launch.index(parts.count).index(parts.length);
    launch.global({size_t(parts.rows * parts.count * parts.lanes)}).local({size_t(parts.lanes)});
  };
  if (parts.count > 1) add("cumsum_totals");
  add("cumsum_parts");
  return kernel;
}

std::unique_ptr<Kernel> prepare_cumsum(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int dim = int(op.attributes[attr::dim]);
  const Addressing dst = as_rows(candidate.outputs[0], {dim});
  KernelSource source("cumsum/cumsum_rows.cl");
  source.tensor("SRC", as_rows(candidate.inputs[0], {dim})).tensor("DST", dst);
  source.define("INTEGERS", is_floating(dst.dtype) ? 0 : 1).define("JOINED_BY", join_of(op));
  const int64_t rows = dst.places() / dst.padded(7);
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "cumsum_rows").input(0, "SRC").output(0, "DST").index(rows).global({size_t(rows)}).local({64});
  return kernel;
}

// By work-groups, on GPUs.
void list_groups(const Op& op, OpenclDevice& device, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  if (!offers_row_groups(device, out) || !has_quads(dtype) || op.out().dtype != dtype) return;
  if (op.attributes[attr::function] == "logaddexp") return;  // more than one number would have to be kept
  constexpr int64_t kLocal = 32 << 10;                       // bytes: what OpenCL asks of devices
  const int dim = int(op.attributes[attr::dim]);
  RowUse use;
  use.eights = false;
  for (const RowWay& way : row_ways(out.whole_space)) {
    if (way.parts) continue;
    add_per_layout(op, concat("cumsum_groups", way.name), out, [&](Candidate& candidate) {
      const TensorDesc& x = candidate.inputs[0];
      const auto rows = row_groups(device, x, axes_of_rows(x, {dim}, AxisKind::row), way, use);
      if (!rows) return false;
      const bool across = rows->pieces.across;
      const int64_t items = int64_t(rows->run_lanes) * rows->step_lanes * rows->slots;
      const int64_t numbers = across ? items * rows->vector : items * (rows->kept + 1) * 33 / 32 + 33 * rows->slots;
      if (numbers * 4 > kLocal) return false;
      candidate.efficiency = efficiency_of_groups(device, *rows, true);
      candidate.prepare = [&device, rows = *rows, dtype, joined = join_of(op)] {
        KernelSource source("cumsum/cumsum_groups.cl");
        source.define("SRC_DTYPE", name_of(dtype)).define("DST_DTYPE", name_of(dtype)).define("JOINED_BY", joined);
        rows.define(source);
        auto kernel = std::make_unique<KernelList>(device);
        rows.over_groups(kernel->add(source, "cumsum_groups").input(0).output(0).scalar(cl_int(rows.rows)));
        return kernel;
      };
      return true;
    });
  }
}

void list_cumsum(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_groups(op, device, out);
  const int64_t row_size = op.out().shape[int(op.attributes[attr::dim])];
  if (offers_row_groups(device, out) && row_size > RowParts::kKept)
    add_per_layout(op, "cumsum_parts", out, [&](Candidate& candidate) {
      candidate.efficiency = 0.2;
      candidate.workspace_bytes =
          RowParts(device, as_rows(candidate.outputs[0], {int(op.attributes[attr::dim])})).workspace_bytes();
      candidate.prepare = [&device, op, candidate] { return prepare_parts(device, op, candidate); };
      return true;
    });
  add_per_layout(op, "cumsum_rows", out, [&](Candidate& candidate) {
    candidate.efficiency = efficiency_by_rows(device, op.out().elements(), row_size, 0.05);
    candidate.prepare = [&device, op, candidate] { return prepare_cumsum(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("cumsum", list_cumsum);

}  // namespace
}  // namespace pl::opencl
