// arg_reduce: argmax and argmin (kernels/arg_reduce/).
#include <numeric>

#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"
#include "providers/opencl/quads.h"
#include "providers/opencl/row_vectors.h"
#include "providers/opencl/rows.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const TensorDesc& x = candidate.inputs[0];
  std::vector<int> last;  // the dimensions of a row
  if (op.attributes.is_none("dim")) {
    last.resize(size_t(x.rank()));
    std::iota(last.begin(), last.end(), 0);
  } else if (x.rank()) {  // a scalar's dim 0 is not one of its dimensions
    last = {int(op.attributes.integer("dim"))};
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
  source.define("ARG_MIN", op.attributes.text("function") == "argmin" ? 1 : 0);
  kernel->add(source, "arg_reduce_rows")
      .input(0, "SRC")
      .output(0, "DST")
      .index(size)
      .index(rows)
      .global({size_t(rows * group)})
      .local({size_t(group > 1 ? group : 64)});
  return kernel;
}

// By vectors, on CPUs.
void list_vectors(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!device.capabilities().cpu || !has_quads(x.dtype) || x.rank() == 0) return;
  std::vector<int> dims;
  if (op.attributes.is_none("dim")) {
    dims.resize(size_t(x.rank()));
    std::iota(dims.begin(), dims.end(), 0);
  } else {
    dims = {int(op.attributes.integer("dim"))};
  }
  add_per_layout(op, "arg_reduce_vectors", out, [&](Candidate& candidate) {
    const auto rows = row_vectors(device, candidate.inputs[0], dims);
    if (!rows || !in_order_of_indices(candidate.inputs[0], dims)) return false;
    TensorDesc& y = candidate.outputs[0];
    const bool keepdim = y.rank() == x.rank();
    if (y.has_padding()) y = y.with_layout(Layout::plain(y.rank()));
    if (!in_order_of_rows(y, candidate.inputs[0], dims, keepdim)) return false;
    candidate.efficiency = 0.5;
    const bool min = op.attributes.text("function") == "argmin";
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
}

void list_arg_reduce(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_vectors(op, device, out);
  add_per_layout(op, "arg_reduce_rows", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("arg_reduce", list_arg_reduce);

}  // namespace
}  // namespace pl::opencl
