// arg_reduce: argmax and argmin (kernels/arg_reduce/).
#include <numeric>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/row_groups.h"
#include "providers/opencl/addressing/row_vectors.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_arg_reduce(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const TensorDesc& x = candidate.inputs[0];
  std::vector<int> last;  // the dimensions of a row
  if (op.attributes.is_none(attr::dim)) {
    last.resize(size_t(x.rank()));
    std::iota(last.begin(), last.end(), 0);
  } else if (x.rank()) {  // a scalar's dim 0 is not one of its dimensions
    last = {int(op.attributes[attr::dim])};
  }
  if (last.empty()) last = {x.rank()};
  Addressing src(x), dst(candidate.outputs[0]);
  if (!x.rank()) src.insert(0, 1), dst.insert(0, 1);
  int64_t size = 1;
  for (int dim : last) {
    if (dst.rank < src.rank) dst.insert(dim, 1);
    size *= src.dims[size_t(dim)];
  }
  const int64_t rows = x.elements() / size;
  const int group = row_group(device, size);
  auto kernel = std::make_unique<KernelList>(device);
  add_zero_padding(*kernel, dst);
  KernelSource source("arg_reduce/arg_reduce_rows.cl");
  source.tensor("SRC", as_rows(src, last)).tensor("DST", as_rows(dst, last));
  source.define("GROUP", group).define("ROW_DIMS", int64_t(last.size()));
  source.define("ARG_MIN", op.attributes[attr::function] == "argmin" ? 1 : 0);
  kernel->add(source, "arg_reduce_rows")
      .input(0, "SRC")
      .output(0, "DST")
      .index(size)
      .index(rows)
      .global({size_t(rows * group)})
      .local({size_t(group > 1 ? group : 64)});
  return kernel;
}

std::unique_ptr<Kernel> prepare_groups(OpenclDevice& device, const RowGroups& rows, bool min, DType from) {
  KernelSource source("arg_reduce/arg_reduce_groups.cl");
  source.define("SRC_DTYPE", name_of(from)).define("ARG_MIN", min ? 1 : 0);
  rows.define(source);
  auto kernel = std::make_unique<KernelList>(device);
  const auto count = cl_int(rows.rows);
  if (rows.parts == 1) {
    rows.over_groups(kernel->add(source, "arg_reduce_groups").input(0).output(0).scalar(count));
    return kernel;
  }
  rows.over_groups(kernel->add(source, "arg_reduce_parts").input(0).workspace().scalar(count));
  rows.over_rows(kernel->add(source, "arg_reduce_join").workspace().output(0).scalar(count));
  return kernel;
}

// By vectors, on CPUs, and by work-groups, on GPUs.
void list_vectors(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!has_quads(x.dtype) || x.rank() == 0) return;
  std::vector<int> dims;
  if (op.attributes.is_none(attr::dim)) {
    dims.resize(size_t(x.rank()));
    std::iota(dims.begin(), dims.end(), 0);
  } else {
    dims = {int(op.attributes[attr::dim])};
  }
  const bool min = op.attributes[attr::function] == "argmin";
  // Whether results lie as the rows do, and elements of a row in their order; gives results a layout without padding.
  const auto in_order = [dims](Candidate& candidate) {
    TensorDesc& y = candidate.outputs[0];
    const TensorDesc& x = candidate.inputs[0];
    if (y.has_padding()) y = y.with_layout(Layout::plain(y.rank()));
    return in_order_of_indices(x, dims) && in_order_of_rows(y, x, dims, y.rank() == x.rank());
  };
  add_per_layout(op, "arg_reduce_vectors", out, [&](Candidate& candidate) {
    const auto rows = row_vectors(device, candidate.inputs[0], dims);
    if (!rows || !in_order(candidate)) return false;
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, rows = *rows, min, from = x.dtype] {
      KernelSource source("arg_reduce/arg_reduce_vectors.cl");
      source.define("SRC_DTYPE", name_of(from)).define("ARG_MIN", min ? 1 : 0);
      rows.define(source);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "arg_reduce_vectors").input(0).output(0);
      rows.walk(launch);
      rows.global(launch, device);
      return kernel;
    };
    return true;
  });
  if (!offers_row_groups(device, out)) return;
  RowUse use;
  use.held = true;
  for (const RowWay& way : row_ways(out.whole_space))
    add_per_layout(op, concat("arg_reduce_groups", way.name), out, [&](Candidate& candidate) {
      if (!in_order(candidate)) return false;
      const TensorDesc& x = candidate.inputs[0];
      const auto rows = row_groups(device, x, axes_of_rows(x, dims, AxisKind::row), way, use);
      if (!rows) return false;
      candidate.efficiency = efficiency_of_groups(device, *rows, false);
      candidate.workspace_bytes = way.parts ? rows->stats_bytes(2) : 0;
      candidate.prepare = [&device, rows = *rows, min, from = x.dtype] {
        return prepare_groups(device, rows, min, from);
      };
      return true;
    });
}

void list_arg_reduce(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_vectors(op, device, out);
  add_per_layout(op, "arg_reduce_rows", out, [&](Candidate& candidate) {
    candidate.efficiency = efficiency_by_rows(device, op.out().elements(), 1, 0.1);  // a row gives one
    candidate.prepare = [&device, op, candidate] { return prepare_arg_reduce(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("arg_reduce", list_arg_reduce);

}  // namespace
}  // namespace pl::opencl
